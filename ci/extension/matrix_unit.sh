edit reference/arithmetic/matrix_unit.cpp '/^    {"v100_f16", /{p;s/v100_f16"/exercise"/}'
edit reference/golden/arithmetic/vectors.csv '/^v100_f16;/{p;s/^v100_f16/exercise/;:a;n;ba}'
shows units exercise
