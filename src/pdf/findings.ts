import type { DataExtent } from './ends.ts';
import type { Extent } from './images.ts';
import { NotStrippable } from './notStrippable.ts';
import { isObjectNumber, NumberSet } from './numberSet.ts';

/** An edit that replaces bytes `start` to `end` with `text`, padded with spaces. The document keeps its length and every offset. */
export interface Edit extends Extent {
  text: '' | ' <<>>';
}

export interface Stream {
  /** Undefined if the words before `obj` are not an object number. */
  objectNumber: number | undefined;
  /** From after `obj` to before `endobj`; the end is undefined if `endobj` is not in its place. */
  object: { start: number; end: number | undefined };
  data: DataExtent;
  /** The image codec, if it is the only filter of the data. */
  codec: string | undefined;
  /** The XMP of an image; undefined until it was searched for. */
  imageXmp?: Extent[];
  /** Whether another object or a trailer begins within its data, or the stream lies within the data of another one. */
  entangled: boolean;
}

/** Limit on streams with XMP. */
const STREAMS_MAX = 100_000;

/** The findings in a document, and the edits that remove its XMP. */
export class Findings {
  /** Metadata streams: those marked as metadata, and those that contain a packet. */
  readonly #declared = new Set<Stream>();
  readonly #packets = new Set<Stream>();
  readonly #images = new Set<Stream>();
  /** Object numbers of streams that are not marked as metadata. */
  readonly #others = new NumberSet();
  readonly #namedAsMetadata = new NumberSet();
  readonly #namedOtherwise = new NumberSet();
  /** The first obstacle. If the document turns out to be encrypted or signed, that is reported instead, because it explains more. */
  #obstacle: string | undefined;

  hinder(why: string): void {
    this.#obstacle ??= why;
  }

  reference(objectNumber: number, key: string | undefined): void {
    const named = key === 'Metadata' ? this.#namedAsMetadata : this.#namedOtherwise;
    named.add(objectNumber);
  }

  /** Adds a stream of the type Metadata. */
  metadata(stream: Stream): void {
    this.#keep(this.#declared, stream);
  }

  /** Adds a stream that is not marked as metadata. */
  other({ objectNumber = -1 }: Stream): void {
    this.#others.add(objectNumber);
  }

  /** Adds a packet in a stream; `isOfImage`: within the XMP parts of an image. */
  packet(stream: Stream, isOfImage = false): void {
    if (!this.#declared.has(stream)) this.#keep(isOfImage ? this.#images : this.#packets, stream);
  }

  isMetadata(stream: Stream): boolean {
    return this.#declared.has(stream);
  }

  /** Throws NotStrippable if there is an obstacle. */
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

  /** An object may be emptied only if it is nothing but metadata: otherwise the document would look different. */
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
