// One file: its content, what changed between two versions, and its history. The address names the versions.
import { loadConversations } from "../chat/conversations.js";
import { get } from "../core/api.js";
import { attempt } from "../core/dialogs.js";
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { navigate, search } from "../core/router.js";
import { useItemTitle } from "../core/title.js";
import { Ago, Card, Choice, Empty, Icon, Select } from "../core/ui.js";
import { spellOut, VisibleText } from "../core/visible_text.js";
import { useStream } from "../core/watch.js";
import { Content } from "./content.js";
import { Diff } from "./diff.js";
import { Author, CHANGES, FilePath, formatSize, getName, Owner, Skeleton, toContentAddress } from "./words.js";

const VIEWS = [
  ["content", "Content"],
  ["changes", "Changes"],
];

/** The versions that the address names. Versions that do not exist become the newest one, and the one before. */
function readAddress(versions) {
  const given = new URLSearchParams(search.value);
  const find = (name) => versions.find(({ n }) => String(n) === given.get(name));
  const view = given.get("view") === "changes" ? "changes" : "content";
  const shown = find(view === "changes" ? "to" : "version") ?? versions[0];
  const before = versions.find(({ n }) => n < shown.n)?.n ?? 0;
  const from = find("from");
  return { view, shown, from: from && from.n !== shown.n ? from.n : before };
}

const toQuery = (view, n, from) => (view === "changes" ? `?view=changes&from=${from}&to=${n}` : `?version=${n}`);

const describeVersion = ({ n, change }) => `Version ${n}${change === "deleted" ? ", deleted" : ""}`;

function Toolbar({ id, versions, view, shown, from }) {
  const go = (query) => navigate(`/files/${id}${query}`);
  const previous = versions.find(({ n }) => n < shown.n)?.n ?? 0;
  const options = versions.map((version) => [String(version.n), describeVersion(version)]);
  const older = [...versions.filter(({ n }) => n !== shown.n), { n: 0 }].map((version) => [
    String(version.n),
    version.n ? describeVersion(version) : "No file",
  ]);
  const chooseShown = (n) => go(toQuery(view, n, versions.find((version) => version.n < Number(n))?.n ?? 0));
  return html`<div class="file-toolbar">
    <${Choice} label="Show" value=${view} options=${VIEWS} onChoose=${(name) => go(toQuery(name, shown.n, previous))} />
    ${
      view === "changes" &&
      html`<${Select} label="From" value=${String(from)} options=${older} onChoose=${(n) => go(toQuery(view, shown.n, n))} />
        <span class="faint" aria-hidden="true">→</span>`
    }
    <${Select} label=${view === "changes" ? "To" : "Version"} value=${String(shown.n)} options=${options} onChoose=${chooseShown} />
    <span class="grow"></span>
    ${
      shown.is_kept && html`<a class="btn small" href=${toContentAddress(id, shown.n)} download><${Icon} name="down" />Download</a>`
    }
  </div>`;
}

function VersionRow({ id, version, previous, isShown }) {
  const other = previous ? `version ${previous}` : "no file";
  return html`<li class="file-version" aria-current=${isShown ? "true" : null}>
    <div class="grow">
      <p>
        <a class="link" href="/files/${id}${toQuery("content", version.n)}">Version ${version.n}</a>
        <span class="faint"> · ${CHANGES[version.change]}</span>
      </p>
      ${
        version.renamed_from &&
        html`<p class="file-facts faint"><span>renamed from <bdi><${VisibleText} text=${version.renamed_from} /></bdi></span></p>`
      }
      <p class="file-facts">
        <${Author} version=${version} /><${Owner} version=${version} />
        ${version.change !== "deleted" && html`<span class="faint num">${formatSize(version.size)}</span>`}
        <${Ago} at=${version.at} />
      </p>
    </div>
    <a class="btn ghost small" href="/files/${id}${toQuery("changes", version.n, previous)}">
      <${Icon} name="compare" />Compare<span class="sr-only"> version ${version.n} with ${other}</span>
    </a>
  </li>`;
}

const History = ({ id, versions, shown }) => html`<${Card} title="Versions" count=${versions.length}>
  <ol class="rows">
    ${versions.map(
      (version, place) => html`<${VersionRow}
        key=${version.n}
        id=${id}
        version=${version}
        previous=${versions[place + 1]?.n ?? 0}
        isShown=${version.n === shown.n}
      />`,
    )}
  </ol>
<//>`;

const Heading = ({ file, version }) => html`<div class="file-heading">
  <p class="small"><a class="link" href="/files">Files</a></p>
  <h1 dir="auto"><${VisibleText} text=${file.path.slice(file.path.lastIndexOf("/") + 1)} /></h1>
  <p class="file-facts">
    <${FilePath} path=${file.path} />
    ${file.workspace && html`<span class="faint"><bdi>${spellOut(file.workspace)}</bdi></span>`}
    <span class="faint num">${version.change === "deleted" ? "deleted" : formatSize(version.size)}</span>
  </p>
</div>`;

function Loaded({ file, versions }) {
  const { view, shown, from } = readAddress(versions);
  const name = getName(file.path);
  useItemTitle(name);
  return html`<div class="file-part">
    <${Heading} file=${file} version=${shown} />
    <div class="file-columns ${view === "changes" ? "whole" : ""}">
      <section class="card" aria-label=${view === "changes" ? "Changes" : "Content"}>
        <${Toolbar} id=${file.id} versions=${versions} view=${view} shown=${shown} from=${from} />
        ${
          view === "changes"
            ? html`<${Diff} key="${from}-${shown.n}" id=${file.id} from=${from} to=${shown.n} />`
            : html`<${Content} key=${shown.n} file=${file} version=${shown} />`
        }
      </section>
      <${History} id=${file.id} versions=${versions} shown=${shown} />
    </div>
  </div>`;
}

export function Page({ id }) {
  const [state, setState] = useState(null); // {file, versions}, or {problem}
  const isCurrent = useRef(true);
  useEffect(() => () => (isCurrent.current = false), []);
  const load = async () => {
    try {
      const [found] = await Promise.all([get(`/v1/files/${id}`), loadConversations()]);
      if (isCurrent.current) setState(found);
    } catch (error) {
      if (error.status !== 404) throw error;
      setState({ problem: true });
    }
  };
  const onResult = ({ files = [] }) => files.some((file) => file.id === id) && attempt(load);
  useStream("/v1/events", () => ({ load, on: { tool_result: onResult } }));
  if (!state)
    return html`<div class="file-part" key="loading">
      <h1>File</h1>
      <${Skeleton} label="Loading the file…" />
    </div>`;
  if (state.problem)
    return html`<div class="file-part" key="missing">
      <h1>File not found</h1>
      <${Empty}>There is no such file, or its record was deleted. <a class="link" href="/files">Show all files</a><//>
    </div>`;
  return html`<${Loaded} key="loaded" ...${state} />`;
}
