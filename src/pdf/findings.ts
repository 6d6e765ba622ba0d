import type { DataExtent } from './ends.ts';
import type { Extent } from './images.ts';
import { NotStrippable } from './notStrippable.ts';
import { isObjectNumber, NumberSet } from './numberSet.ts';

/** Bytes `start` to `end` are to become `text`, filled up with spaces: a document keeps its length, and every offset in it. */
export interface Edit extends Extent {
  text: '' | ' <<>>';
}

export interface Stream {
  /** Undefined where the words before `obj` are no object number. */
  objectNumber: number | undefined;
  /** From behind `obj` to before `endobj`; without an end, if that is not where it belongs. */
  object: { start: number; end: number | undefined };
  data: DataExtent;
  /** The image codec that its data, as it stands in the file, goes through, and only that. */
  codec: string | undefined;
  /** The XMP of an image, once it was looked for. */
  imageXmp?: Extent[];
  /** Whether another object, or a trailer, begins within its data, or it lies in the data of another stream. */
  entangled: boolean;
}

/** Of streams with XMP. */
const STREAMS_MAX = 100_000;

/** What was found of a document, and what can be done about it. */
export class Findings {
  /** Metadata streams: those that say so, and those with a packet in them. */
  readonly #declared = new Set<Stream>();
  readonly #packets = new Set<Stream>();
  readonly #images = new Set<Stream>();
  /** Object numbers of streams that do not say so. */
  readonly #others = new NumberSet();
  readonly #namedAsMetadata = new NumberSet();
  readonly #namedOtherwise = new NumberSet();
  /** What stands in the way, unless the document turns out to be encrypted or signed, which explains more. */
  #obstacle: string | undefined;

  hinder(why: string): void {
    this.#obstacle ??= why;
  }

  reference(objectNumber: number, key: string | undefined): void {
    const named = key === 'Metadata' ? this.#namedAsMetadata : this.#namedOtherwise;
    named.add(objectNumber);
  }

  /** A stream of the type Metadata. */
  metadata(stream: Stream): void {
    this.#keep(this.#declared, stream);
  }

  /** A stream that does not say that it is metadata. */
  other({ objectNumber = -1 }: Stream): void {
    this.#others.add(objectNumber);
  }

  /** A packet in a stream; with `xmp` in one of these parts of an image. */
  packet(stream: Stream, isOfImage = false): void {
    if (!this.#declared.has(stream)) this.#keep(isOfImage ? this.#images : this.#packets, stream);
  }

  isMetadata(stream: Stream): boolean {
    return this.#declared.has(stream);
  }

  /** Throws NotStrippable when something stands in the way. */
  edits(): Edit[] {
    const metadata = [...this.#declared, ...this.#packets];
    const numbers = new Set(metadata.map(({ objectNumber }) => objectNumber));
    for (const number of this.#namedAsMetadata.intersection(this.#others)) {
      if (!numbers.has(number)) this.hinder(`object ${number} is named as metadata, but is something else`);
    }
    for (const stream of metadata) this.#requireNothingElse(stream);
    for (const stream of this.#images) this.#requireApart(stream);
    if (this.#obstacle !== undefined) throw new NotStrippable(this.#obstacle);
    return [
      ...metadata.map(({ object: { start, end = start } }): Edit => ({ start, end, text: ' <<>>' })),
      ...[...this.#images].flatMap(({ imageXmp = [] }) =>
        imageXmp.map((extent): Edit => ({ ...extent, text: '' })),
      ),
    ].sort((a, b) => a.start - b.start);
  }

  #keep(streams: Set<Stream>, stream: Stream): void {
    streams.add(stream);
    const found = this.#declared.size + this.#packets.size + this.#images.size;
    if (found > STREAMS_MAX) throw new NotStrippable('it has more XMP than any document needs');
  }

  /** An object that is emptied must be metadata and nothing else: otherwise the document would look different. */
  #requireNothingElse(stream: Stream): void {
    const { objectNumber, object, data } = stream;
    this.#requireApart(stream);
    const isKnown = objectNumber !== undefined && isObjectNumber(objectNumber) && object.end !== undefined;
    if (!isKnown || (!data.isCertain && data.furthest > data.end)) {
      this.hinder(`where its metadata, ${nameOf(stream)}, begins and ends cannot be told`);
    } else if (this.#namedOtherwise.has(objectNumber)) {
      this.hinder(
        `${nameOf(stream)} holds XMP, but is not only metadata: an attachment, for example, or part of a form`,
      );
    }
  }

  #requireApart(stream: Stream): void {
    if (stream.entangled) this.hinder(`${nameOf(stream)}, with XMP, and other objects lie within each other`);
  }
}

export function nameOf({ objectNumber }: Pick<Stream, 'objectNumber'>): string {
  return objectNumber === undefined ? 'an object without a number' : `object ${objectNumber}`;
}
