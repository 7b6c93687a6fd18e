"""Writes functions.csv: values of elementary functions at doubles, from mpmath, an implementation that shares
no code with MPFR (pure Python on integers; MPMATH_NOGMPY=1 keeps even GMP out).

Regenerate: MPMATH_NOGMPY=1 python3 reference/golden/real/generate.py > reference/golden/real/functions.csv
"""
import random

import mpmath
from mpmath import mp, mpf

mp.prec = 400
DIGITS = 50

FUNCTIONS = {
    "exp": (mpmath.exp, lambda r: r.uniform(-708, 709)),
    "exp_small": (mpmath.exp, lambda r: r.uniform(-1, 1) * 2.0 ** -r.randrange(60)),
    "expm1": (mpmath.expm1, lambda r: r.uniform(-1, 1) * 2.0 ** r.randrange(-60, 9)),
    "log": (mpmath.log, lambda r: r.uniform(1, 2) * 2.0 ** r.randrange(-470, 470)),
    "log_near_1": (mpmath.log, lambda r: 1 + r.uniform(-0.25, 0.5) * 2.0 ** -r.randrange(40)),
    "log1p": (mpmath.log1p, lambda r: r.uniform(-0.5, 1) * 2.0 ** -r.randrange(60)),
    "tanh": (mpmath.tanh, lambda r: r.uniform(-1, 1) * 2.0 ** r.randrange(-30, 5)),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda r: r.uniform(1, 2) * 2.0 ** r.randrange(-400, 400)),
}


def main():
    generator = random.Random(2026)
    print(f"# source: mpmath {mpmath.__version__} at {mp.prec} bits, rounded to {DIGITS} digits")
    print("# regenerate: MPMATH_NOGMPY=1 python3 reference/golden/real/generate.py > reference/golden/real/functions.csv")
    print("function,x,value")
    for name, (function, draw) in FUNCTIONS.items():
        for _ in range(60):
            x = draw(generator)
            print(f"{name.split('_')[0]},{x.hex()},{mpmath.nstr(function(mpf(x)), DIGITS, strip_zeros=False)}")


main()
