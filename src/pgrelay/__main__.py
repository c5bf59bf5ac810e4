"""`python -m pgrelay`: the commands without the script that pip installs."""

import sys

from pgrelay.cli import main

sys.exit(main())
