// Notices to the operator.
import { get } from "../core/api.js";
import { html, signal } from "../core/lib.js";
import { coalesce } from "../core/live_list.js";
import { Ago, Card, Empty, Icon } from "../core/ui.js";
import { GoalLink, Known } from "./parts.js";

const notices = signal(null);
const PAGE_SIZE = 50;
const REQUEST_URL = /^\/(approvals|questions)\/\d{1,18}$/;

export const load = async () => (notices.value = (await get("/v1/notices", { limit: PAGE_SIZE })).notices);
export const on = { operator_notice: coalesce(load) };

const Notice = ({ notice }) => html`<li>
  <${Icon} name="bell" />
  <div class="grow">
    <div dir="auto">${notice.text}</div>
    <div class="sub">
      ${notice.kind.replaceAll("_", " ")} · <${Ago} at=${notice.created_at} />
      ${REQUEST_URL.test(notice.url) && html` · <a class="link" href=${notice.url}>open the request</a>`}
      <${GoalLink} id=${notice.goal_id} />
    </div>
  </div>
</li>`;

const List = ({ list }) =>
  list.length
    ? html`<ul class="rows">${list.map((notice) => html`<${Notice} key=${notice.id} notice=${notice} />`)}</ul>`
    : html`<${Empty}>There are no notices.<//>`;

export const Tab = () => html`<${Card} title="Inbox" count=${notices.value?.length}>
  <${Known} value=${notices.value}>${(list) => html`<${List} list=${list} />`}<//>
<//>`;
