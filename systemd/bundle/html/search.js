const SECTIONS = JSON.parse(document.getElementById('sections').textContent);
const RESULTS_MAX = 40;
const EXCERPT_BEFORE = 60;
const EXCERPT_CHARACTERS = 220;

const field = document.querySelector('input[type=search]');
const summary = document.getElementById('summary');
const results = document.getElementById('results');

/** How well a section answers: every word must be in it; those in its heading or title count most. */
function scoreOf({ title, heading, text }, words) {
  const [inTitle, inHeading, inText] = [title, heading, text].map((part) => part.toLowerCase());
  let score = 0;
  for (const word of words) {
    const found =
      (inHeading.includes(word) ? 10 : 0) +
      (inTitle.includes(word) ? 4 : 0) +
      (inText.includes(word) ? 1 : 0);
    if (found === 0) return 0;
    score += found + Math.min(inText.split(word).length - 1, 5) / 10;
  }
  return score;
}

/** The text around the first of the words, with all of them marked. */
function excerptOf(text, words) {
  const places = words.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
  const start = Math.max(0, Math.min(...places, text.length) - EXCERPT_BEFORE);
  const excerpt = text
    .slice(places.length === 0 ? 0 : start)
    .replace(start === 0 || places.length === 0 ? '' : /^\S*\s/, '')
    .slice(0, EXCERPT_CHARACTERS);
  const line = document.createElement('p');
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[^\w ]/g, '\\$&')).join('|')})`, 'i');
  for (const [index, part] of excerpt.split(pattern).entries()) {
    const node = index % 2 === 1 ? document.createElement('mark') : document.createTextNode(part);
    if (index % 2 === 1) node.textContent = part;
    line.append(node);
  }
  return line;
}

function show() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found =
    words.length === 0
      ? []
      : SECTIONS.map((section) => ({ section, score: scoreOf(section, words) }))
          .filter(({ score }) => score > 0)
          .sort((a, b) => b.score - a.score);
  if (words.length > 0) summary.textContent = `${found.length} sections have "${field.value.trim()}".`;
  results.replaceChildren(
    ...found.slice(0, RESULTS_MAX).map(({ section: { title, heading, href, text } }) => {
      const result = document.createElement('div');
      result.className = 'found';
      const link = document.createElement('a');
      link.href = href;
      link.textContent = heading === title ? title : `${title}: ${heading}`;
      result.append(link, excerptOf(text, words));
      return result;
    }),
  );
}

field.value = new URLSearchParams(location.search).get('q') ?? '';
field.addEventListener('input', show);
field.focus();
show();
