// Verifies webhooks with the published package: returns the body of each message, or why it was refused.
import { Webhook } from "standardwebhooks";

export async function converse(secret, messages) {
  const verifier = new Webhook(secret);
  return messages.map(({ body, headers }) => {
    try {
      return verifier.verify(body, headers);
    } catch (refusal) {
      return { refused: refusal.message };
    }
  });
}
