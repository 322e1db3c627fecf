// The files that the agents of a turn wrote, each with a link to the version: at the end of the turn, and in the details of a call.
import { html } from "../core/lib.js";
import { Icon, loadStyles, pluralize } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";

const SHOWN_FILES = 8;

await loadStyles("files.css");

const FileLink = ({ file }) => html`<li class=${file.change === "deleted" ? "gone" : ""}>
  <a class="link" href="/files/${file.id}?version=${file.version}"><bdi><${VisibleText} text=${file.path} /></bdi></a>${
    file.change === "deleted" && html`<span class="faint"> deleted</span>`
  }
</li>`;

const FileLinks = ({ files }) => html`<ul class="written-files" aria-label="Files">
  ${files.map((file) => html`<${FileLink} key=${file.id} file=${file} />`)}
</ul>`;

/** The files of a turn or, without a `turnId`, of one call. `omitted`: how many more there are. */
export function WrittenFiles({ files, omitted = 0, turnId }) {
  if (!turnId) return html`<${FileLinks} files=${files} />`;
  const more = files.length + omitted - SHOWN_FILES;
  return html`<div class="turn-files">
    <${Icon} name="file" />
    <div class="grow">
      <a class="turn-files-all" href="/files?turn_id=${turnId}">${pluralize(files.length + omitted, "file")}</a>
      <${FileLinks} files=${files.slice(0, SHOWN_FILES)} />
      ${more > 0 && html`<p class="faint">and ${more} more</p>`}
    </div>
  </div>`;
}
