add cases/suites/exercise.cases cases/suites/softmax.cases ''
shows suites exercise
