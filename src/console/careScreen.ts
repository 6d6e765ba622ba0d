/** The screen Care: upkeep, drills, epochs and the configuration. */
import { backupCard, backupRoute } from './backupCard.ts';
import { drillCard, drillRoutes } from './drillCard.ts';
import { english } from './english.ts';
import { epochsPage } from './epochsPage.ts';
import { type Html, html } from './html.ts';
import { sectionHead } from './pageFrame.ts';
import { proposalNote, proposalRoutes } from './proposalCards.ts';
import { reading, type Screen, type ScreenRequest } from './screen.ts';
import { settingsPage } from './settingsPage.ts';
import type { Sources } from './sources.ts';
import { upkeepCards } from './upkeepCards.ts';

const words = english.care;

export function careScreen(sources: Sources): Screen {
  const get = (path: keyof typeof words.sections, answer: (request: ScreenRequest) => Html | Promise<Html>) =>
    reading(path, async (request) => ({
      title: words.sections[path].heading,
      main: html`${sectionHead(words.title, words.sections, path)}${await answer(request)}`,
    }));
  return {
    path: '/care',
    label: words.title,
    routes: [
      get('/care', (request) => carePage(sources, request)),
      get('/care/epochs', (request) => epochsPage(sources, request)),
      get('/care/configuration', (request) => settingsPage(sources, request)),
      backupRoute(sources),
      ...drillRoutes(sources),
      ...proposalRoutes(sources),
    ],
  };
}

async function carePage(sources: Sources, { session }: ScreenRequest): Promise<Html> {
  const { status: reader, clock } = sources;
  const status = await reader.read();
  const now = clock();
  return html`${proposalNote(sources)}${upkeepCards(status, now)}${backupCard(sources, status, session, now)}${drillCard(sources, status, session, now)}`;
}
