// The tabs of Operations, in the order of the list beside them. Each module is loaded when its tab is first opened. It exports
// `Tab`, the content; `load`, which fetches what the tab shows; and `on`, a handler for each kind of event that changes it.
// `needs`: the scope of the tokens that the tab is offered to. It is offered to all without.
import { session } from "../core/session.js";
import { deadLetterCount } from "../core/watch.js";

const countDeadLetters = () => deadLetterCount.value ?? 0;

export const TABS = [
  { name: "", label: "Overview", group: "Work", load: () => import("./overview.js") },
  { name: "queue", label: "Queue", group: "Work", load: () => import("./work/queue.js") },
  {
    name: "dead-letters",
    label: "Dead letters",
    group: "Work",
    count: countDeadLetters,
    load: () => import("./work/dead_letters.js"),
  },
  { name: "workers", label: "Workers", group: "Work", needs: "operator", load: () => import("./work/workers.js") },
  { name: "agents", label: "Agents", group: "Work", load: () => import("./work/agents.js") },
  { name: "schedules", label: "Schedules", group: "Work", load: () => import("./schedules/schedules.js") },
  { name: "notices", formerPath: "/operations/inbox", label: "Notices", group: "Work", load: () => import("./notices.js") },
  { name: "spending", label: "Spending", group: "Work", load: () => import("./spending/spending.js") },
  { name: "webhooks", label: "Webhooks", group: "Connections", needs: "admin", load: () => import("./webhooks.js") },
  { name: "tools", label: "Tools and policy", group: "Connections", needs: "admin", load: () => import("./installation/tools.js") },
  { name: "access", label: "Access", group: "Installation", needs: "admin", load: () => import("./installation/access.js") },
  { name: "audit", label: "Audit log", group: "Installation", needs: "admin", load: () => import("./installation/audit.js") },
  {
    name: "settings",
    label: "Models and settings",
    group: "Installation",
    needs: "admin",
    load: () => import("./installation/settings.js"),
  },
];

export const getPath = ({ name }) => (name ? `/operations/${name}` : "/operations");
export const isOffered = ({ needs }) => !needs || Boolean(session.value?.[needs]);
