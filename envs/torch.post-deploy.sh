#!/usr/bin/env bash
set -euo pipefail
python -m pip install --no-deps textpruner==1.1.post2
