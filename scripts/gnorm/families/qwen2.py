"""Qwen2: Llama's layers with biases."""

from gnorm.families import Family
from gnorm.families.llama import LAYOUT

FAMILY = Family(name="qwen2", layout=LAYOUT, key_heads="num_key_value_heads", decoder=True, rotary=True)
