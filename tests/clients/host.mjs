// Runs clients: reads one request per line, [script, ...arguments], and prints the client's view, or the failure.
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const [script, ...given] = JSON.parse(line);
  const { converse } = await import(`./${script}`);
  const answer = await converse(...given).then(
    (view) => ({ view }),
    (failure) => ({ failure: String(failure.stack) }),
  );
  console.log(JSON.stringify(answer));
}
