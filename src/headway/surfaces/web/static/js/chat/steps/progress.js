// Tells open transcripts that their run has continued.
const followers = new Map(); // by run: the functions that load the end of an open transcript again

export function noteProgress(runId) {
  for (const reload of followers.get(runId) ?? []) reload();
}

/** Returns the function that stops it. */
export function followRun(runId, reload) {
  if (!followers.has(runId)) followers.set(runId, new Set());
  followers.get(runId).add(reload);
  return () => {
    followers.get(runId).delete(reload);
    if (!followers.get(runId).size) followers.delete(runId);
  };
}
