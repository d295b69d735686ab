"""SOLAR: admission gated by regret, eviction by Thompson sampling, every ablation of the two, and a guard."""

from softhit.policies.solar import guarded as guarded
from softhit.policies.solar import variants as variants
