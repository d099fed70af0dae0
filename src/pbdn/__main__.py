"""``python -m pbdn`` is the command ``pbdn``."""

from pbdn.cli import main

if __name__ == "__main__":
    main()
