// The files that the agents of a goal, or of one of its sub-goals, wrote, each with a link to the version that they wrote last.
import { get } from "../core/api.js";
import { html, useEffect, useState } from "../core/lib.js";
import { Icon, pluralize } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { formatSize } from "../files/words.js";

const LIMIT = 50;

const FileItem = ({ file }) => html`<li>
  <${Icon} name=${file.version.change === "deleted" ? "trash" : "file"} />
  <a class="link" href="/files/${file.id}?version=${file.version.n}"><bdi><${VisibleText} text=${file.path} /></bdi></a>
  <span class="faint num">${file.version.change === "deleted" ? "deleted" : formatSize(file.version.size)}</span>
</li>`;

/** `of`: the filters that name the goal or sub-goal. `writes`: a number that changes when something was written. */
export function WrittenFiles({ of, writes = 0, level = 3 }) {
  const query = new URLSearchParams(of).toString();
  const [page, setPage] = useState(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    let isCurrent = true;
    get("/v1/files", { ...of, limit: LIMIT }).then(
      (loaded) => {
        if (!isCurrent) return;
        setPage(loaded);
        setProblem("");
      },
      (error) => isCurrent && setProblem(error.message),
    );
    return () => (isCurrent = false);
  }, [query, writes]);
  if (problem) return html`<p class="problem" role="alert">The files could not be listed. ${problem}</p>`;
  if (!page?.files.length) return null;
  const title = page.next_cursor ? `The last ${LIMIT} files` : pluralize(page.files.length, "file");
  return html`<section class="result-files" aria-label="Files">
    ${level === 3 ? html`<h3>${title}</h3>` : html`<h4>${title}</h4>`}
    <ul>${page.files.map((file) => html`<${FileItem} key=${file.id} file=${file} />`)}</ul>
    ${page.next_cursor && html`<p><a class="link" href="/files?${query}">All of its files</a></p>`}
  </section>`;
}
