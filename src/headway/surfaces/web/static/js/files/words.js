// Words and links for files and their versions.
import { conversations, formatTitle } from "../chat/conversations.js";
import { html, signal } from "../core/lib.js";
import { spellOut, VisibleText } from "../core/visible_text.js";

const TITLE_LENGTH = 80;
export const goals = signal([]); // those whose titles are known

export const formatGoal = ({ title, description }) => spellOut((title || description).slice(0, TITLE_LENGTH));

const UNITS = ["bytes", "KB", "MB", "GB"];

export function formatSize(bytes) {
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < UNITS.length - 1) {
    size /= 1000;
    unit++;
  }
  return unit ? `${size.toFixed(size < 10 ? 1 : 0)} ${UNITS[unit]}` : `${size} ${size === 1 ? "byte" : "bytes"}`;
}

export const CHANGES = {
  written: "Written",
  changed: "Changed by a program",
  deleted: "Deleted",
  found: "Found: no agent wrote it",
};

export const getName = (path) => spellOut(path.slice(path.lastIndexOf("/") + 1));
export const getExtension = (path) => /\.([a-z0-9+#]{1,12})$/i.exec(path)?.[1].toLowerCase() ?? "";

/** A path whose last part stands out. Characters that cannot be seen are shown by number. */
export function FilePath({ path }) {
  const at = path.lastIndexOf("/") + 1;
  const folder = at > 0 && html`<span class="faint"><${VisibleText} text=${path.slice(0, at)} /></span>`;
  return html`<bdi class="file-path">${folder}<${VisibleText} text=${path.slice(at)} /></bdi>`;
}

/** The address of a file. The newest version needs no number. */
export const toAddress = (file, n = file.version.n) => `/files/${file.id}${n === file.latest ? "" : `?version=${n}`}`;

export const toContentAddress = (id, n) => `/v1/files/${id}/content?version=${n}`;

/** The owner of the work: a goal, or a conversation with its title. */
export function Owner({ version }) {
  if (version.goal_id) {
    const goal = goals.value.find(({ id }) => id === version.goal_id);
    const name = goal ? formatGoal(goal) : `Goal ${version.goal_id}`;
    return html`<a class="link truncate" dir="auto" href="/goals/${version.goal_id}">${name}</a>`;
  }
  if (!version.conversation_id) return null;
  const known = conversations.value.find(({ id }) => id === version.conversation_id);
  const title = known ? formatTitle(known) : `Conversation ${version.conversation_id}`;
  return html`<a class="link truncate" dir="auto" href="/c/${version.conversation_id}">${title}</a>`;
}

/** Who wrote a version. */
export const Author = ({ version }) =>
  version.change !== "found" &&
  html`<span><bdi>${spellOut(version.role)}</bdi> <span class="faint">with ${spellOut(version.tool)}</span></span>`;

export const Skeleton = ({ label }) => html`<div class="skeletons" aria-busy="true">
  <span class="sr-only" role="status">${label}</span>
  <i class="skeleton w70"></i><i class="skeleton w88"></i><i class="skeleton w56"></i>
</div>`;
