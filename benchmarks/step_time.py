"""Step time and memory beside torch.optim.Adam: `adamomentum bench`, without installing the lab.

python benchmarks/step_time.py [--models A B] [--threads 2] [--seconds 5] [--json FILE]
"""

import argparse
from pathlib import Path

from adamomentum_lab.bench.shapes import MODELS
from adamomentum_lab.bench.step_time import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, metavar="NAME", help=", ".join(MODELS)
    )
    parser.add_argument("--threads", type=int, default=2, help="torch threads (default: 2)")
    parser.add_argument("--seconds", type=float, default=5, help="for each model (default: 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    args = parser.parse_args()
    main(args.models, args.threads, args.seconds, args.json)
