"""`adamomentum bench` for those who have not installed the lab: all models, default settings."""

from adamomentum_lab.bench.step_time import main

if __name__ == "__main__":
    main()
