/** The script of the console: refreshes pages, and adds the reader's local time. Everything works without it. */

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
});
const CLOCK_MS = 5_000;

/** Forms already sent from this page. */
let sent = new WeakSet<HTMLFormElement>();

/** Adds the exact time in the reader's time zone as a tooltip. */
function addLocalTimes(within: ParentNode): void {
  for (const one of within.querySelectorAll<HTMLTimeElement>('time[datetime]'))
    one.title = LOCAL.format(new Date(one.dateTime));
}

function tick(): void {
  const clock = document.querySelector<HTMLTimeElement>('time[data-clock]');
  if (clock === null) return;
  const now = new Date();
  clock.dateTime = now.toISOString();
  const local = now.getTimezoneOffset() === 0 ? '' : ` · ${CLOCK.format(now)}`;
  clock.textContent = `${now.toISOString().slice(11, 16)} UTC${local}`;
}

/**
 * Requests the page again, and replaces the content. The browser parses the document, so text never becomes markup here (Trusted Types).
 * Opened elements stay open, and the focused element keeps the focus.
 */
function refresh(main: HTMLElement, url: string): void {
  const request = new XMLHttpRequest();
  request.open('GET', url);
  request.responseType = 'document';
  request.timeout = 10_000;
  request.onload = () => {
    const next = request.responseXML?.querySelector('main');
    if (request.status === 401) location.reload();
    if (request.status !== 200 || !next) return;
    const open = new Set(Array.from(main.querySelectorAll('details[open][id]'), ({ id }) => id));
    const focused = document.activeElement?.id;
    addLocalTimes(next);
    for (const one of next.querySelectorAll<HTMLDetailsElement>('details[id]')) one.open = open.has(one.id);
    main.replaceChildren(...next.childNodes);
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  };
  request.send();
}

function keepCurrent(main: HTMLElement, url: string): void {
  const events = new EventSource('/now/events');
  events.addEventListener('news', () => {
    if (!document.hidden) refresh(main, url);
  });
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) refresh(main, url);
  });
  // The browser reconnects by itself, unless it was refused.
  events.addEventListener('error', () => {
    if (events.readyState !== EventSource.CLOSED) return;
    // If the session has ended, this leads to the page that says so.
    refresh(main, url);
    const notice = document.createElement('p');
    notice.className = 'notice';
    notice.setAttribute('role', 'status');
    notice.textContent = main.dataset.off ?? '';
    main.before(notice);
  });
}

/** Prevents a second click from sending the form again. The button is part of the submitted form, so it is disabled only afterwards. */
function sendOnce(form: HTMLFormElement): void {
  setTimeout(() => {
    for (const button of form.querySelectorAll('button')) button.disabled = true;
  });
}

document.addEventListener('submit', (event) => {
  const form = event.target as HTMLFormElement;
  if (form.method !== 'post') return;
  if (sent.has(form)) event.preventDefault();
  else sendOnce(form);
  sent.add(form);
});
// A page restored by the Back button is as it was left.
addEventListener('pageshow', () => {
  sent = new WeakSet();
  for (const button of document.querySelectorAll<HTMLButtonElement>('form[method=post] button'))
    button.disabled = false;
});
addLocalTimes(document);
tick();
setInterval(tick, CLOCK_MS);
const main = document.querySelector('main');
if (main?.dataset.live) keepCurrent(main, main.dataset.live);

export {};
