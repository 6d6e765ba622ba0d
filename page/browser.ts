/** Browser features that all pages use: files dropped onto them, and printing. */

/**
 * Accepts files dropped anywhere on the page, which the browser would otherwise open. While a file is dragged over it, `marked` has the
 * class `dragging`.
 */
export function takeDropped(marked: HTMLElement, take: (files: File[]) => void): void {
  document.addEventListener('dragover', (event) => {
    event.preventDefault();
    marked.classList.add('dragging');
  });
  document.addEventListener('dragleave', ({ relatedTarget }) => {
    if (relatedTarget === null) marked.classList.remove('dragging');
  });
  document.addEventListener('drop', (event) => {
    event.preventDefault();
    marked.classList.remove('dragging');
    take(Array.from(event.dataTransfer?.files ?? []));
  });
}

/** Unfolds everything for printing. */
export function unfoldOnPaper(report: HTMLElement): void {
  let folded: HTMLElement[] = [];
  addEventListener('beforeprint', () => {
    folded = [...report.querySelectorAll<HTMLElement>('details:not([open]), tr[hidden]')];
    for (const one of folded) unfold(one, true);
  });
  addEventListener('afterprint', () => {
    for (const one of folded) unfold(one, false);
  });
}

function unfold(one: HTMLElement, isOpen: boolean): void {
  if (one instanceof HTMLDetailsElement) one.open = isOpen;
  else one.hidden = !isOpen;
}
