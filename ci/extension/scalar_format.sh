edit reference/formats/scalar.cpp '/^    {"f16", floating/i\    {"e3m4", floating, 8, 1, 3, 4, 3, true, Specials::ieee, 15.5, 0, 0, "an exercise"},'
edit reference/golden/formats/scalar_decode.csv '$a\e3m4,111,0x1.f000000000000p+3'
shows formats e3m4
