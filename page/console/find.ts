/** The script of the screen Find: looks for a document by its digest, and remembers the digest for the page of its receipt. */
import { takeFiles } from './fileDrop.ts';
import { remember } from './lastFile.ts';

takeFiles((hashed) => {
  remember(hashed);
  location.assign(`/find?q=${hashed.sha256}`);
});
