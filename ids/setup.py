"""The compiled part of the build: see `compiling`, in the folder above or beside. All else is in ``pyproject.toml``."""

import re
import sys
from pathlib import Path

from setuptools import setup

sys.path[:0] = map(str, Path(__file__).resolve().parents[:2])  # which a build in isolation lacks

from compiling import compile_with

HOT = re.compile(r"beanpole_ids\.(datagrams|fair|fast|forms|hand|origin|outbox|scan|tallies)")
"""What runs for every datagram."""

setup(**compile_with(HOT))
