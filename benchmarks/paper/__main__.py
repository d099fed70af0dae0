"""Regenerate the paper's tables and figures.

python -m benchmarks.paper all --profile quick --jobs 2   # everything, reduced, into out/paper-quick
python -m benchmarks.paper table2                         # the fits that are missing, then the table
python -m benchmarks.paper render                         # docs/reproduction.md and its appendix from the records there are
"""

import argparse

from benchmarks.paper.fits import PROFILES, ROOT, TARGETS, jobs
from benchmarks.paper.render import render


def main() -> None:
    parser = argparse.ArgumentParser(
        "benchmarks.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("target", choices=[*TARGETS, "all", "render"])
    parser.add_argument("--profile", choices=PROFILES, default="full")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--columns", help="only these columns, separated by commas")
    parser.add_argument("--data", help="only these data sets, separated by commas")
    parser.add_argument("--first-split", action="store_true", help="only split 0 of every column")
    options = parser.parse_args()
    if options.target != "render":
        chosen = [
            job
            for job in jobs(options.target, options.profile)
            if (not options.columns or job.column in options.columns.split(","))
            and (not options.data or job.data in options.data.split(","))
            and (not options.first_split or job.split == 0)
        ]
        from benchmarks.paper.run import run

        run(chosen, ROOT[options.profile], options.jobs)
    print(render(options.target, options.profile))


if __name__ == "__main__":
    main()
