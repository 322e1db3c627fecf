"""A randomised soak of everything together: `python -m tests.soak --database sqlite --seconds 1800 --seed 7`.

`people` act over HTTP, `script` answers as the model, `world` runs the processes and breaks them, and `witness` follows the event
streams and the rows. The witness shares no code with Headway: plain HTTP, plain SQL.
"""
