"""SOLAR: admission gated by regret, eviction by Thompson sampling, and every ablation of the two."""

from softhit.policies.solar import variants as variants
