/** The screen Care: upkeep, drills, epochs and the configuration. */
import { type DrillSources, drillCard, drillRoutes } from './drillCard.ts';
import { english } from './english.ts';
import { type EpochSources, epochsPage } from './epochsPage.ts';
import { type Html, html } from './html.ts';
import type { Page, Screen, ScreenRequest } from './screen.ts';
import { type SettingSources, settingsPage } from './settingsPage.ts';
import { upkeepCards } from './upkeepCards.ts';
import { chooser } from './values.ts';

export type CareSources = DrillSources & EpochSources & SettingSources;

const words = english.care;

export function careScreen(sources: CareSources): Screen {
  const get = (
    path: keyof typeof words.sections,
    answer: (request: ScreenRequest) => Html | Promise<Html>,
  ) => ({
    ...({ method: 'GET', path, role: 'auditor' } as const),
    answer: async (request: ScreenRequest): Promise<Page> => ({
      title: words.sections[path].heading,
      main: html`${head(path)}${await answer(request)}`,
    }),
  });
  return {
    path: '/care',
    label: words.title,
    routes: [
      get('/care', (request) => carePage(sources, request)),
      get('/care/epochs', () => epochsPage(sources)),
      get('/care/configuration', (request) => settingsPage(sources, request)),
      ...drillRoutes(sources),
    ],
  };
}

/** With links to the other pages of the screen. */
function head(here: keyof typeof words.sections): Html {
  const { heading, lead } = words.sections[here];
  const links = Object.entries(words.sections).map(([path, { label }]) => {
    return { path, label, isHere: path === here };
  });
  return html`<div class="title"><div class="intro"><h1>${heading}</h1><p class="quiet">${lead}</p></div>
${chooser(words.title, links)}</div>`;
}

async function carePage({ status: reader, clock }: CareSources, { session }: ScreenRequest): Promise<Html> {
  const status = await reader.read();
  const now = clock();
  return html`${upkeepCards(status, now)}${drillCard(status, session, now)}`;
}
