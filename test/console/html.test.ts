/** Nothing that a stranger wrote becomes markup, hides, or turns the text around it. */
import t from 'tap';
import { code, exact, html, named } from '../../src/console/html.ts';
import { fc } from '../support/seed.ts';

const HOSTILE = [
  '<script>alert(1)</script>',
  '"><img src=x onerror=alert(1)>',
  "' onfocus='x",
  '&lt;',
  '\u202egnp',
  '\0\u001b[2J',
  'a\u00ad\u061c\u200b\u200c\u200d\u2060\u2061\u2064\ufeffb',
];

t.test('text is escaped in an element and in an attribute', async (t) => {
  for (const text of HOSTILE)
    for (const made of [
      html`<p title="${text}">${text}</p>`,
      html`<p>${named(text)}</p>`,
      html`<p>${code(text)}</p>`,
    ]) {
      const inside = String(made).replaceAll(/<\/?(?:p|bdi|code|wbr)(?: (?:class|title)="[^"<>]*")?>/g, '');
      t.notMatch(inside, /[<>"']/, String(made));
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are the subject
      t.notMatch(inside, /[\x00-\x1f]|[\p{Default_Ignorable_Code_Point}\p{Bidi_Control}]/u, String(made));
    }
});

t.test('the value of a field is sent back as it came', async (t) => {
  t.equal(String(html`<input value="${exact('A\u200fB"<&')}">`), '<input value="A\u200fB&quot;&lt;&amp;">');
});

t.test('any text is escaped', async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
      const made = String(html`${text}`);
      return !/[<>"']/.test(made) && !/&(?!(?:amp|lt|gt|quot|#39);)/.test(made);
    }),
  );
  t.pass('is escaped');
});

t.test('absent parts are left out, and lists and markup are inserted', async (t) => {
  t.equal(
    String(html`<p>${undefined}${false}${0}${[html`<b>${'&'}</b>`, 'x']}</p>`),
    '<p>0<b>&amp;</b>x</p>',
  );
});

t.test('names and digests can wrap, and are copied whole', async (t) => {
  t.equal(String(named('west/log-2026')), '<bdi class="name">west/<wbr>log-<wbr>2026</bdi>');
  t.match(String(named('x'.repeat(512))), /^<bdi class="name long">/);
  const digest = 'ab'.repeat(32);
  t.equal(String(code(digest)).replaceAll(/<[^>]*>/g, ''), digest);
});
