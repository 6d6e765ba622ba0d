package pdfseald;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON (RFC 8259), because Java's library has none. Objects are maps, arrays lists; whole numbers are Long, others Double. At most 100
 * levels deep.
 */
public final class Json {
    private static final int DEPTH_MAX = 100;
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The object in a text in UTF-8; null if it is anything else. */
    public static Map<String, Object> parseObject(byte[] bytes) {
        try {
            Json json = new Json(StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString());
            Object value = json.value(0);
            json.blanks();
            return json.at == json.text.length() && value instanceof Map<?, ?> ? object(value) : null;
        } catch (CharacterCodingException | IllegalArgumentException | IndexOutOfBoundsException error) {
            return null;
        }
    }

    /** A value of the parser that is an object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    /** The text of maps, lists, strings, numbers, booleans and null. */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map<?, ?> map) {
            out.append('{');
            map.forEach((name, member) -> {
                if (out.charAt(out.length() - 1) != '{') out.append(',');
                write(name, out);
                out.append(':');
                write(member, out);
            });
            out.append('}');
        } else if (value instanceof List<?> list) {
            out.append('[');
            for (int index = 0; index < list.size(); index++) {
                if (index > 0) out.append(',');
                write(list.get(index), out);
            }
            out.append(']');
        } else if (value instanceof String string) {
            out.append('"');
            string.chars().forEach(unit -> {
                if (unit == '"' || unit == '\\') out.append('\\').append((char) unit);
                else if (unit < ' ' || Character.isSurrogate((char) unit)) out.append("\\u%04x".formatted(unit));
                else out.append((char) unit);
            });
            out.append('"');
        } else {
            out.append(value);
        }
    }

    private Object value(int depth) {
        if (depth > DEPTH_MAX) throw new IllegalArgumentException("too deep");
        blanks();
        switch (text.charAt(at)) {
            case '{':
                return members(depth);
            case '[':
                return elements(depth);
            case '"':
                return string();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> members(int depth) {
        Map<String, Object> map = new LinkedHashMap<>();
        at++;
        if (follows('}')) return map;
        do {
            blanks();
            String name = string();
            expect(':');
            map.put(name, value(depth + 1));
        } while (follows(','));
        expect('}');
        return map;
    }

    private List<Object> elements(int depth) {
        List<Object> list = new ArrayList<>();
        at++;
        if (follows(']')) return list;
        do list.add(value(depth + 1));
        while (follows(','));
        expect(']');
        return list;
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        while (text.charAt(at) != '"') {
            char unit = text.charAt(at++);
            if (unit < ' ') throw new IllegalArgumentException("a control character");
            out.append(unit == '\\' ? escaped() : unit);
        }
        at++;
        return out.toString();
    }

    private char escaped() {
        char letter = text.charAt(at++);
        if (letter == 'u') {
            at += 4;
            return (char) Integer.parseUnsignedInt(text.substring(at - 4, at), 16);
        }
        int known = "\"\\/bfnrt".indexOf(letter);
        if (known < 0) throw new IllegalArgumentException("an unknown escape");
        return "\"\\/\b\f\n\r\t".charAt(known);
    }

    private Object number() {
        int begin = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) at++;
        String digits = text.substring(begin, at);
        if (digits.matches("-?(0|[1-9][0-9]{0,17})")) return Long.valueOf(digits);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) throw new IllegalArgumentException("no value");
        return Double.valueOf(digits);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) throw new IllegalArgumentException("no value");
        at += word.length();
        return value;
    }

    private boolean follows(char expected) {
        blanks();
        if (text.charAt(at) != expected) return false;
        at++;
        return true;
    }

    private void expect(char expected) {
        if (!follows(expected)) throw new IllegalArgumentException("expected " + expected);
    }

    private void blanks() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
    }
}
