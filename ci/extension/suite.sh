add cases/suites/main/exercise.cases cases/suites/main/softmax.cases ''
shows suites exercise
