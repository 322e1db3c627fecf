"""Does an agent finish its list, and is its "done" true? The same tasks, model and tools for Headway and other frameworks.

    python -m bench.effect --simulated                       # a model with stated faults, without weights, in seconds
    python -m bench.effect --simulated --sweep               # the same as those faults become rarer
    python -m bench.effect --url http://127.0.0.1:8080/v1 --model NAME --out results

What was done is read from the files that a run leaves. Every task belongs to a set: look at `tune` while changing Headway, and
compare versions with `judge`. The published table is from `fresh`, which nobody who made the rules had seen at that time.
"""
