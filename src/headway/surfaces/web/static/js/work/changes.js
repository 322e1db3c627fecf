// The changes of agents in a git repository: one line, which opens to show the files and the diff.
import { attempt } from "../core/dialogs.js";
import { html, useState } from "../core/lib.js";
import { Icon, pluralize } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";

const formatSize = ({ added, deleted }) => (added === null ? "binary" : `+${added} −${deleted}`);

function FileLine({ file }) {
  return html`<li>
    <bdi><${VisibleText} text=${file.path} /></bdi> <span class="faint num">${formatSize(file)}</span>
    ${file.renamed_from && html` <span class="faint">renamed from <bdi><${VisibleText} text=${file.renamed_from} /></bdi></span>`}
  </li>`;
}

/** `load` gets the changes with their diff, if `changes` has none. */
export function Changes({ changes, load }) {
  const [loaded, setLoaded] = useState(null);
  const diff = changes.diff ?? loaded?.diff;
  const open = (event) => {
    if (event.currentTarget.open && diff === undefined && load) attempt(async () => setLoaded(await load()));
  };
  const count = changes.files.length + changes.omitted_files;
  return html`<details onToggle=${open}>
    <summary>
      <${Icon} name="tool" />
      <strong>${pluralize(count, "changed file")}</strong>
      <span class="truncate grow">${changes.branch}</span>
      <${Icon} name="chev" class="chev" />
    </summary>
    <div class="tool-details">
      <ul class="small">${changes.files.map((file) => html`<${FileLine} key=${file.path} file=${file} />`)}</ul>
      ${changes.omitted_files > 0 && html`<p class="faint small">and ${pluralize(changes.omitted_files, "more file")}</p>`}
      <p class="faint small">${
        changes.merged
          ? "Merged into the branch of the agent that asked for it."
          : html`To take it over: <code>git merge ${changes.branch}</code>`
      }</p>
      ${diff && html`<pre tabindex="0" aria-label="Diff"><code><${VisibleText} text=${diff} isBlock /></code></pre>`}
    </div>
  </details>`;
}
