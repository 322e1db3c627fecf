// Colours for code. The library and each language are loaded when an answer needs them.
import { html, signal } from "../core/lib.js";

// Each language with its name and the other words that people write after ```.
const LANGUAGES = {
  bash: ["Shell", "sh", "shell", "zsh", "console"],
  c: ["C", "h"],
  cpp: ["C++", "c++", "cc", "hpp", "cxx"],
  csharp: ["C#", "cs", "c#"],
  css: ["CSS"],
  diff: ["Diff", "patch"],
  dockerfile: ["Dockerfile", "docker"],
  go: ["Go", "golang"],
  ini: ["INI", "toml", "conf"],
  java: ["Java"],
  javascript: ["JavaScript", "js", "jsx", "mjs", "cjs", "node"],
  json: ["JSON", "jsonc", "json5"],
  kotlin: ["Kotlin", "kt", "kts"],
  markdown: ["Markdown", "md"],
  php: ["PHP"],
  python: ["Python", "py", "python3"],
  ruby: ["Ruby", "rb"],
  rust: ["Rust", "rs"],
  sql: ["SQL", "postgres", "postgresql", "sqlite", "mysql"],
  swift: ["Swift"],
  typescript: ["TypeScript", "ts", "tsx"],
  xml: ["XML", "html", "svg", "xhtml"],
  yaml: ["YAML", "yml"],
};
const OWN_LABELS = { toml: "TOML", html: "HTML", svg: "SVG", console: "Console" };
const NEEDS = { xml: ["css", "javascript"] }; // languages inside of others
const CODE_LIMIT = 10_000; // longer code stays as it is: some languages take quadratic time
const LABEL_LIMIT = 30;
const PIECE = /<span class="([\w -]+)">|<\/span>|&(?:amp|lt|gt|quot|#x27);|[^<&]+/g;
const CHARACTERS = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'" };

const byWord = new Map(Object.entries(LANGUAGES).flatMap(([name, [, ...words]]) => [name, ...words].map((word) => [word, name])));
const isReady = signal(new Set()); // languages that are loaded
const loading = new Set();
let library = null;

/** The language that the first word after ``` names: its label, and its name if it can be coloured. */
export function findLanguage(info) {
  const word = info
    .trim()
    .split(/[\s{,:]/, 1)[0]
    .toLowerCase();
  const name = byWord.get(word);
  return { name, label: OWN_LABELS[word] ?? (name ? LANGUAGES[name][0] : word.slice(0, LABEL_LIMIT)) };
}

async function load(name) {
  loading.add(name);
  try {
    library ??= (await import("../../vendor/highlight/core.js")).default;
    const names = [name, ...(NEEDS[name] ?? [])];
    const grammars = await Promise.all(names.map((one) => import(`../../vendor/highlight/${one}.js`)));
    grammars.forEach((grammar, index) => {
      library.registerLanguage(names[index], grammar.default);
    });
    isReady.value = new Set([...isReady.value, name]);
  } catch {
    /* without colours, code can be read as well */
  }
}

/** The elements of a library's output. It contains spans with classes, text and five character references. */
function toElements(output) {
  const stack = [{ children: [] }];
  for (const [piece, scope] of output.matchAll(PIECE)) {
    if (scope) stack.push({ scope, children: [] });
    else if (piece === "</span>" && stack.length > 1) {
      const { scope: name, children } = stack.pop();
      stack.at(-1).children.push(html`<span class=${name}>${children}</span>`);
    } else stack.at(-1).children.push(CHARACTERS[piece] ?? piece);
  }
  return stack[0].children;
}

/** The code with colours if its language is loaded, else as it is. Loading it renders the caller again. */
export function highlight(code, name) {
  if (!name || code.length > CODE_LIMIT) return code;
  if (!isReady.value.has(name)) {
    if (!loading.has(name)) load(name);
    return code;
  }
  return toElements(library.highlight(code, { language: name, ignoreIllegals: true }).value);
}
