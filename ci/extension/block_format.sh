add reference/formats/blocks/exercise.cpp reference/formats/blocks/q8_0.cpp 's/q8_0/exercise/g; s/Q8_0/Exercise/g'
edit reference/formats/block.hpp '/^extern const BlockCodec q8_0_codec/i\extern const BlockCodec exercise_codec;'
edit reference/formats/formats.cpp '/{"q8_0", block/i\      {"exercise", block, 8.5, 32, 0, "an exercise", {}, {}, 0, \&exercise_codec},'
list reference/formats/CMakeLists.txt 's|^    blocks/iq4_nl.cpp|    blocks/exercise.cpp\n&|'
shows formats exercise
