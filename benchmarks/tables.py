"""Write every table of the documentation again from the records.

    python -m benchmarks.tables                 # README.md, the reproduction of the paper, docs/decision_tables.md, marked tables
    python -m benchmarks.tables out_of_core     # print one table

A table stands in a page between ``<!-- table: COMMAND -->`` and ``<!-- end of table -->``, where COMMAND is
``python -m benchmarks.tables NAME`` (README.md: ``python -m benchmarks.readme``). A test compares all pages with the records.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from benchmarks import quality_tables, speed_tables

HOME = Path(__file__).resolve().parent.parent
MARKED = re.compile(
    r"(<!-- table: python -m benchmarks\.(?:tables )?(\w+) -->\n).*?(<!-- end of table -->\n)", re.DOTALL
)

TABLES: dict[str, Callable[[], str]] = {
    "readme": quality_tables.readme_table,
    "calibration": quality_tables.calibration_table,
    "depth_rules": quality_tables.depth_rules_table,
    "several_classes_error": lambda: quality_tables.several_classes_table("error", 2),
    "several_classes_log_loss": lambda: quality_tables.several_classes_table("log_loss", 3),
    "several_classes_complexity": lambda: quality_tables.several_classes_table("complexity", 0),
    "mnist": speed_tables.mnist,
    "sweep": speed_tables.sweep,
    "draws": speed_tables.draws,
    "scaling": speed_tables.scaling,
    "whole_chains": speed_tables.whole_chains,
    "map_speed": speed_tables.map_speed,
    "small_products": speed_tables.small_products,
    "many_classes": speed_tables.many_classes,
    "out_of_core": speed_tables.out_of_core,
    "waiting": speed_tables.waiting,
    "waiting_file": speed_tables.waiting_file,
    "gpu_map": speed_tables.gpu_map,
}


def with_tables(text: str) -> str:
    """A page with its marked tables made from today's records."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def pages() -> dict[Path, str]:
    """Every page that holds tables, and what it should say."""
    from benchmarks.paper.render import pages as of_paper

    found = dict(of_paper())
    for path in [HOME / "README.md", *sorted((HOME / "docs").glob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if MARKED.search(text):
            found[path] = with_tables(text)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=TABLES, help="print this table alone")
    name = parser.parse_args().name
    if name:
        print(TABLES[name](), end="")
        return
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(HOME))


if __name__ == "__main__":
    main()
