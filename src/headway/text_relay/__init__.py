"""Live text across processes that share a Postgres database. Text that a model writes in one process reaches readers of another.

- A process with readers announces them on the channel READERS, with the name of the channel where it receives text. It repeats this
  while they are connected.
- A process that runs a turn sends the text of its answers to the channels of the processes that have readers of it, in batches. If
  there are none, it sends nothing.
- Each connection that listens has a new channel. So the processes that write see a new receiver and begin with the start of the
  answer: a receiver has every piece of an answer, or none after a gap.
"""
