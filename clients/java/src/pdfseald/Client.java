package pdfseald;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;

/**
 * One pdfseald, and one API key. Needs Java 17 and nothing else; several threads can use it at the same time.
 *
 * <p>What may succeed later is sent again with the same Idempotency-Key, so a document is never sealed twice by a retry.
 */
public final class Client {
    private static final Duration PATIENCE = Duration.ofMinutes(10);
    private static final Duration REQUEST_TIMEOUT = Duration.ofMinutes(5);
    private static final Duration PAUSE_MAX = Duration.ofMinutes(1);
    /** What a service, or a proxy in front of it, answers while it is away. */
    private static final Set<Integer> PASSING_STATUSES = Set.of(429, 502, 503, 504);

    private final String base;
    private final String apiKey;
    private final Duration patience;
    private final Duration requestTimeout;
    private final HttpClient http;

    /** A client of the pdfseald at {@code url}, with or without {@code /v1}, that tries for ten minutes. */
    public Client(String url, String apiKey) {
        this(url, apiKey, PATIENCE, REQUEST_TIMEOUT, HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build());
    }

    /**
     * @param apiKey null if a client certificate authenticates, which {@code http} presents
     * @param patience how long to try again what may succeed later, and to wait for a job
     * @param requestTimeout how long one answer may take
     * @param http must not follow redirects: the key must not reach another server
     */
    public Client(String url, String apiKey, Duration patience, Duration requestTimeout, HttpClient http) {
        this.base = url.replaceAll("/+$", "").replaceAll("/v1$", "") + "/v1";
        this.apiKey = apiKey;
        this.patience = patience;
        this.requestTimeout = requestTimeout;
        this.http = http;
    }

    /** A job as {@code GET /v1/jobs/{id}} shows it. Later versions of the service add members. */
    public record Job(Map<String, Object> members) {
        public String id() {
            return (String) members.get("id");
        }

        /** {@code queued}, {@code hashing}, {@code sealing}, {@code completed} or {@code failed}. */
        public String phase() {
            return (String) members.get("phase");
        }
    }

    /** A receipt, byte for byte as the service gave it: keep the bytes, not what a parser made of them. */
    public record Receipt(byte[] bytes, Map<String, Object> members) {}

    /** A job that is on disk. {@code replayed}: an earlier request with this key created it. */
    public record Created(Job job, boolean replayed) {}

    public record Sealed(Job job, Receipt receipt, boolean replayed) {}

    /** Seals, and waits for the receipt. Throws {@link PdfsealException}. */
    public Sealed seal(SealRequest request) throws InterruptedException {
        Created created = create(request.orMode("blocking"));
        Job job = await(created.job().id());
        return new Sealed(job, receipt(job.id()), created.replayed());
    }

    /** Creates a job, which is on disk when this returns. Throws {@link PdfsealException}. */
    public Created create(SealRequest request) throws InterruptedException {
        String given = request.idempotencyKey();
        Answer answer = ask(request.path(), request.body(), given != null ? given : UUID.randomUUID().toString(), true);
        boolean replayed = answer.headers().firstValue("Idempotent-Replayed").orElse("").equals("true");
        return new Created(new Job(answer.json()), replayed);
    }

    /** The job as it is now. */
    public Job job(String id) throws InterruptedException {
        return new Job(ask(pathOf(id), null, null, true).json());
    }

    /** The completed job. Throws JobFailed, or StillRunning when the patience is over. */
    public Job await(String id) throws InterruptedException {
        long until = System.nanoTime() + patience.toNanos();
        while (true) {
            Answer answer = ask(pathOf(id), null, null, true);
            Job job = new Job(answer.json());
            if (job.phase().equals("completed")) return job;
            if (job.phase().equals("failed")) throw new PdfsealException.JobFailed(job);
            Duration pause = pauseOf(answer.headers(), 0);
            if (System.nanoTime() + pause.toNanos() > until) throw new PdfsealException.StillRunning(job);
            Thread.sleep(pause.toMillis());
        }
    }

    /**
     * Passes on all jobs that this key can read and the filters fit, newest first: {@code phase}, {@code visibility},
     * {@code document_sha256}, {@code customer_reference}, {@code created_from}, {@code created_to}, and {@code limit}, the length of a
     * page.
     */
    public void jobs(Map<String, String> filters, Consumer<Job> each) throws InterruptedException {
        Map<String, String> query = new LinkedHashMap<>(filters);
        do {
            StringBuilder text = new StringBuilder("/jobs?");
            query.forEach((name, value) -> text.append(encode(name)).append('=').append(encode(value)).append('&'));
            Map<String, Object> page = ask(text.substring(0, text.length() - 1), null, null, true).json();
            for (Object job : (List<?>) page.get("jobs")) each.accept(new Job(Json.object(job)));
            query.put("cursor", (String) page.get("next_cursor"));
        } while (query.get("cursor") != null);
    }

    public Receipt receipt(String id) throws InterruptedException {
        Answer answer = ask(pathOf(id) + "/receipt.json", null, null, true);
        return new Receipt(answer.bytes(), answer.json());
    }

    /** The document with its receipt inside, if the request asked for it. */
    public byte[] sealedPdf(String id) throws InterruptedException {
        return ask(pathOf(id) + "/sealed.pdf", null, null, false).bytes();
    }

    private record Answer(HttpHeaders headers, byte[] bytes, Map<String, Object> json) {}

    /** Sends the request, again after failures that may pass, until the patience is over. */
    private Answer ask(String path, SealRequest.Body body, String key, boolean isJson) throws InterruptedException {
        long until = System.nanoTime() + patience.toNanos();
        for (int attempt = 0; ; attempt++) {
            try {
                return attempt(path, body, key, isJson);
            } catch (Passing passing) {
                Duration pause = pauseOf(passing.headers, attempt);
                if (System.nanoTime() + pause.toNanos() > until) throw passing.failure;
                Thread.sleep(pause.toMillis());
            }
        }
    }

    private Answer attempt(String path, SealRequest.Body body, String key, boolean isJson)
            throws InterruptedException, Passing {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(base + path)).timeout(requestTimeout);
        if (apiKey != null) request.header("Authorization", "Bearer " + apiKey);
        if (key != null) request.header("Idempotency-Key", key);
        if (body != null) request.header("Content-Type", body.contentType()).POST(body.publisher());
        HttpResponse<byte[]> response;
        try {
            response = http.send(request.build(), HttpResponse.BodyHandlers.ofByteArray());
        } catch (IOException error) {
            throw new Passing(new PdfsealException.Unreachable(base + " gave no answer: " + error.getMessage(), error), null);
        }
        Map<String, Object> json = isJson || response.statusCode() > 299 ? Json.parseObject(response.body()) : Map.of();
        if (response.statusCode() >= 200 && response.statusCode() <= 299) {
            if (json != null) return new Answer(response.headers(), response.body(), json);
            String message = base + " answered with what is not JSON";
            throw new Passing(new PdfsealException.Unreachable(message, null), response.headers());
        }
        PdfsealException.Refused refused = new PdfsealException.Refused(response.statusCode(), json == null ? Map.of() : json);
        boolean mayPass =
                PASSING_STATUSES.contains(refused.status()) || refused.code().equals("idempotency_in_progress");
        if (mayPass) throw new Passing(refused, response.headers());
        throw refused;
    }

    /** A failure that may pass. */
    private static final class Passing extends Exception {
        private static final long serialVersionUID = 1;
        final transient HttpHeaders headers;
        final PdfsealException failure;

        Passing(PdfsealException failure, HttpHeaders headers) {
            this.failure = failure;
            this.headers = headers;
        }
    }

    /** As long as the service says, else one, two, four seconds and so on. */
    private static Duration pauseOf(HttpHeaders headers, int attempt) {
        String said = headers == null ? "" : headers.firstValue("Retry-After").orElse("");
        if (said.matches("[0-9]{1,6}")) return Duration.ofSeconds(Long.parseLong(said));
        return attempt > 6 ? PAUSE_MAX : Duration.ofSeconds(Math.min(1L << attempt, PAUSE_MAX.toSeconds()));
    }

    private static String pathOf(String id) {
        return "/jobs/" + encode(id);
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
