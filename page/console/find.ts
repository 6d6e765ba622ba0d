/** The script of the screen Find: searches for a document by its digest, and saves the digest for the page of its receipt. */
import '../withoutEval.ts';
import { takeFiles } from './fileDrop.ts';
import { remember } from './lastFile.ts';

takeFiles((hashed) => {
  remember(hashed);
  location.assign(`/find?q=${hashed.sha256}`);
});
