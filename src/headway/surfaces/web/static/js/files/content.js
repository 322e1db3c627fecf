// The content of a version: an image, formatted Markdown, or text with colours. Nothing in it is ever run.
import { ApiError } from "../core/api.js";
import { html, useEffect, useState } from "../core/lib.js";
import { Choice, Empty } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";
import { CodeBlock } from "../markdown/code_block.js";
import { Markdown } from "../markdown/markdown.js";
import { formatSize, getExtension, getName, Skeleton, toContentAddress } from "./words.js";

const SHOWN_BYTES = 1_000_000; // of a text; a longer one can be downloaded
const SHOWN_CHARACTERS = 200_000;
const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MARKDOWN = ["md", "markdown"];
const FORMS = [
  ["preview", "Preview"],
  ["source", "Source"],
];

async function fetchText(id, n) {
  let response;
  try {
    response = await fetch(toContentAddress(id, n));
  } catch {
    throw new ApiError(0, "unreachable", "Headway cannot be reached. Check that it is running.");
  }
  if (response.ok) return response.text();
  const { detail } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, "failed", detail ?? `The server answered ${response.status}.`);
}

/** Text as it is. Characters that cannot be seen are marked, and then there are no colours. */
function Source({ text, path }) {
  const shown = text.slice(0, SHOWN_CHARACTERS);
  const hasHidden = spellOut(shown, true) !== shown;
  return html`${
    hasHidden
      ? html`<p class="file-note faint">Characters that cannot be seen are marked.</p>
          <pre class="file-plain" tabindex="0" aria-label="Content"><code dir="ltr"><${VisibleText}
            text=${shown}
            isBlock
          /></code></pre>`
      : html`<${CodeBlock} code=${shown} info=${getExtension(path)} />`
  }
  ${
    text.length > shown.length &&
    html`<p class="file-note faint">The rest is not shown here. Download the file to read all of it.</p>`
  }`;
}

function MarkdownContent({ text, path }) {
  const [form, setForm] = useState("preview");
  return html`<div class="file-form"><${Choice} label="Form" value=${form} options=${FORMS} onChoose=${setForm} /></div>
    ${
      form === "preview"
        ? html`<div class="file-markdown"><${Markdown} text=${text} /></div>`
        : html`<${Source} text=${text} path=${path} />`
    }`;
}

function TextContent({ file, version }) {
  const [text, setText] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    fetchText(file.id, version.n).then(
      (loaded) => isCurrent && setText(loaded),
      (error) => isCurrent && setProblem(error.message),
    );
    return () => (isCurrent = false);
  }, []);
  if (problem) return html`<${Empty}><span class="problem" role="alert" dir="auto">${problem}</span><//>`;
  if (text === null) return html`<${Skeleton} label="Loading…" />`;
  if (!text) return html`<${Empty}>The file is empty.<//>`;
  const isMarkdown = MARKDOWN.includes(getExtension(file.path));
  return isMarkdown
    ? html`<${MarkdownContent} text=${text} path=${file.path} />`
    : html`<${Source} text=${text} path=${file.path} />`;
}

export function Content({ file, version }) {
  const { change, is_kept: isKept, media_type: type, size } = version;
  if (change === "deleted") return html`<${Empty}>The file was deleted. Earlier versions are in its history.<//>`;
  if (!isKept) return html`<${Empty}>The content was not kept, because it is too large (${formatSize(size)}).<//>`;
  if (IMAGES.includes(type))
    return html`<img class="file-image" src=${toContentAddress(file.id, version.n)} alt=${getName(file.path)} />`;
  if (type !== "text/plain") return html`<${Empty}>This file is not text. Download it to open it in another program.<//>`;
  if (size > SHOWN_BYTES) return html`<${Empty}>This text is too long to be shown here (${formatSize(size)}). Download it.<//>`;
  return html`<${TextContent} file=${file} version=${version} />`;
}
