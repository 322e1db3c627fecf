// What people wrote about a todo, oldest first.
import { post, remove } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { html, useRef } from "../core/lib.js";
import { Ago, Icon } from "../core/ui.js";
import { comments, loadComments, loadMoreComments } from "./state.js";

const COMMENT_LENGTH = 10_000;

function Comment({ comment }) {
  const askToRemove = () =>
    ask({
      title: "Delete this comment?",
      text: comment.text.slice(0, 300),
      confirm: "Delete",
      run: async () => {
        await remove(`/v1/todos/${comment.todo_id}/comments/${comment.id}`);
        await loadComments();
      },
    });
  return html`<li>
    <p class="comment-head">
      <strong dir="auto">${comment.person}</strong> <${Ago} at=${comment.created_at} />
      ${
        comment.deletable &&
        html`<button
          class="btn ghost icon-only tiny"
          aria-label="Delete the comment of ${comment.person}"
          title="Delete"
          onClick=${askToRemove}
        ><${Icon} name="trash" /></button>`
      }
    </p>
    <p class="long-text" dir="auto">${comment.text}</p>
  </li>`;
}

function CommentForm({ id }) {
  const field = useRef();
  const submit = (event) => {
    event?.preventDefault();
    const text = field.current.value.trim();
    if (!text) return field.current.focus();
    attempt(async () => {
      await post(`/v1/todos/${id}/comments`, { text });
      if (field.current) field.current.value = "";
      await loadComments();
    });
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return html`<form class="edit-field" onSubmit=${submit}>
    <textarea
      ref=${field}
      aria-label="Comment"
      placeholder="Comment"
      rows="2"
      dir="auto"
      maxlength=${COMMENT_LENGTH}
      onKeyDown=${onKeyDown}
    />
    <div class="actions"><button class="btn small">Add the comment</button></div>
  </form>`;
}

export function Comments({ id }) {
  const known = comments.value?.id === id ? comments.value : null;
  return html`<section aria-label="Comments">
    <h3>Comments</h3>
    ${!known && html`<i class="skeleton"></i>`}
    ${
      known?.list.length > 0 &&
      html`<ol class="comments">${known.list.map((one) => html`<${Comment} key=${one.id} comment=${one} />`)}</ol>`
    }
    ${known?.next && html`<button class="btn ghost small" onClick=${() => attempt(loadMoreComments)}>Show more comments</button>`}
    <${CommentForm} key=${id} id=${id} />
  </section>`;
}
