/** The frame around every page. */
import type { AssetUrls } from './assets.ts';
import { english } from './english.ts';
import { type Html, html, named } from './html.ts';
import { type Page, Refusal, type Screen } from './screen.ts';
import type { Session } from './sessions.ts';
import { chooser, sign } from './values.ts';

export interface Frame {
  environment: string;
  assets: AssetUrls;
  menu: readonly Pick<Screen, 'path' | 'label'>[];
  now: Date;
}

/** A complete HTML document. Without a session it has no menu. */
export function layOut(page: Page, frame: Frame, session?: Session, path = ''): string {
  const { environment, assets, now } = frame;
  const live = page.live === undefined ? undefined : html` data-live="${page.live}"`;
  return `<!doctype html>
${html`<html lang="${english.lang}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${page.title} · ${environment} · ${english.product}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${assets.style}">
<script src="${assets.script}" defer></script>
${page.script && html`<script src="${assets[page.script]}" defer></script>`}
</head>
<body>
<a class="skip" href="#main">${english.skip}</a>
<header class="bar">
<div class="brand">${seal()}<span>${english.product}</span> <strong>${named(environment)}</strong></div>
${session && menuOf(frame.menu, path)}
<div class="aside">
<span class="clock"><time datetime="${now.toISOString()}" data-clock>${now.toISOString().slice(11, 16)} ${english.utc}</time></span>
${session && personOf(session)}
</div>
</header>
${page.notice !== undefined && html`<p class="notice done" role="status">${sign('good')}<span>${page.notice}</span></p>`}
<main id="main" tabindex="-1"${live} data-off="${english.liveOff}">
${page.main}
</main>
</body>
</html>
`}`;
}

function menuOf(menu: Frame['menu'], path: string): Html {
  const items = menu.map((screen) => {
    const isHere = screen.path === '/' ? path === '/' : path.startsWith(screen.path);
    return html`<li><a href="${screen.path}"${isHere && html` aria-current="page"`}>${screen.label}</a></li>`;
  });
  return html`<nav aria-label="${english.menu}"><ul>${items}</ul></nav>`;
}

function personOf(session: Session): Html {
  const { person } = session;
  return html`<form method="post" action="/logout" class="person">
<span><span class="hidden">${english.signedInAs} </span>${named(person.name)} <span class="quiet">${english.roles[person.role]}</span></span>
${tokenField(session)}
<button>${english.logOut}</button>
</form>`;
}

/** The mark of the product: a seal with a tick. */
function seal(): Html {
  return html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><circle cx="12" cy="12" r="10"/><path d="M7.5 12.3l3.1 3.1 5.9-6.3"/></svg>`;
}

/** The hidden field required in every form with `method="post"`. */
export function tokenField({ formToken }: Session): Html {
  return html`<input type="hidden" name="token" value="${formToken}">`;
}

/** The heading of a section of a screen, with links to the others. `sections` are keyed by path. */
export function sectionHead<Path extends string>(
  title: string,
  sections: Readonly<Record<Path, { label: string; heading: string; lead: string }>>,
  here: Path,
): Html {
  const { heading, lead } = sections[here];
  const links = (Object.keys(sections) as Path[]).map((path) => {
    return { path, label: sections[path].label, isHere: path === here };
  });
  return html`<div class="title"><div class="intro"><h1>${heading}</h1><p class="quiet">${lead}</p></div>
${chooser(title, links)}</div>`;
}

/** A select field. `choices` are keyed by value; the first one is selected unless `chosen` is given. */
export function selectField(
  name: string,
  label: string,
  choices: readonly (readonly [value: string, label: string])[],
  chosen?: string,
): Html {
  const options = choices.map(
    ([value, text]) => html`<option value="${value}"${value === chosen && html` selected`}>${text}</option>`,
  );
  return html`<p class="field"><label for="${name}">${label}</label><select id="${name}" name="${name}">${options}</select></p>`;
}

/** The confirmation required in a form for an irreversible act: `sure=yes`. */
export function sureBox(text: string): Html {
  return html`<p><label class="chosen"><input type="checkbox" name="sure" value="yes" required> <span>${text}</span></label></p>`;
}

/** Throws Refusal if a form lacks the confirmation of {@link sureBox}. */
export function requireSure(form: URLSearchParams, text: string, remedy: string): void {
  if (form.get('sure') !== 'yes') throw new Refusal(400, text, remedy);
}
