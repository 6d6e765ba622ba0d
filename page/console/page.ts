/** The script of the console: keeps a page current, and adds the reader's own time. Everything works without it. */

const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'long' });
const CLOCK = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
  timeZoneName: 'short',
});
const CLOCK_MS = 5_000;

/** Forms that were sent from this page. */
let sent = new WeakSet<HTMLFormElement>();

/** The exact time in the reader's zone, for whoever points at a time. */
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
 * Asks for the page anew, and puts its content in the place of the former. The browser makes the document, so no text becomes markup here
 * (Trusted Types). What the reader opened stays open, and what has the focus keeps it.
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
  // The browser tries again by itself, unless it was refused.
  events.addEventListener('error', () => {
    if (events.readyState !== EventSource.CLOSED) return;
    // Where the session has ended, this leads to the page that says so.
    refresh(main, url);
    const notice = document.createElement('p');
    notice.className = 'notice';
    notice.setAttribute('role', 'status');
    notice.textContent = main.dataset.off ?? '';
    main.before(notice);
  });
}

/** So that a second click sends nothing again. The button is still what the form was sent with, so it is disabled after that. */
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
// A page to which the browser goes back is as it was left.
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
