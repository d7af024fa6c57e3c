"""The compiled part of the build: see `compiling` in the folder above. All else stands in ``pyproject.toml``."""

import re
import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # a wheel is built in a checkout

from compiling import compile_with

HOT = re.compile(r"beanpole_ids\.(datagrams|fair|fast|forms|hand|origin|outbox|scan|tallies)")
"""What runs for every datagram."""

setup(**compile_with(HOT))
