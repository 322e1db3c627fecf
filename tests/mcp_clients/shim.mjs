// The conformance suite imports fs.globSync, which Node 20 does not have and which its server scenarios do not use.
import { register } from "node:module";

const FILES = 'export * from "node:fs"; export { default } from "node:fs"; export const globSync = () => []';
const HOOK = `export const resolve = (name, context, next) =>
  name === "fs" && context.parentURL.includes("/conformance/")
    ? { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(FILES)}`)}, shortCircuit: true }
    : next(name, context)`;

register(`data:text/javascript,${encodeURIComponent(HOOK)}`);
