package pdfseald;

import java.util.Map;

/** All errors of this client. */
public abstract sealed class PdfsealException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private PdfsealException(String message, Throwable cause) {
        super(message, cause);
    }

    private static Map<String, Object> errorIn(Map<String, Object> members) {
        return members.get("error") instanceof Map<?, ?> error ? Json.object(error) : Map.of();
    }

    private static String textOf(Map<String, Object> members, String name, String otherwise) {
        return members.get(name) instanceof String text ? text : otherwise;
    }

    /** The service refused the request, in its own words. */
    public static final class Refused extends PdfsealException {
        private static final long serialVersionUID = 1;
        private final int status;
        private final String code;
        private final String requestId;

        Refused(int status, Map<String, Object> envelope) {
            super(textOf(errorIn(envelope), "message", "the answer has the status " + status), null);
            this.status = status;
            this.code = textOf(errorIn(envelope), "code", "unreadable_answer");
            this.requestId = textOf(envelope, "request_id", null);
        }

        public int status() {
            return status;
        }

        /** What to act on: {@code https://…/v1/errors} lists all codes. */
        public String code() {
            return code;
        }

        /** To be named to support; null if there is none. */
        public String requestId() {
            return requestId;
        }
    }

    /** No readable answer came in time. The request may have been carried out: repeat it with the same key. */
    public static final class Unreachable extends PdfsealException {
        private static final long serialVersionUID = 1;

        Unreachable(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** The job failed; it has no receipt. */
    public static final class JobFailed extends PdfsealException {
        private static final long serialVersionUID = 1;
        private final transient Client.Job job;
        private final String code;

        JobFailed(Client.Job job) {
            super(textOf(errorIn(job.members()), "message", "the job failed"), null);
            this.job = job;
            this.code = textOf(errorIn(job.members()), "code", "internal_error");
        }

        public Client.Job job() {
            return job;
        }

        public String code() {
            return code;
        }
    }

    /** The job had not ended in time. It goes on: ask for it later. */
    public static final class StillRunning extends PdfsealException {
        private static final long serialVersionUID = 1;
        private final transient Client.Job job;

        StillRunning(Client.Job job) {
            super("the job " + job.id() + " is " + job.phase(), null);
            this.job = job;
        }

        public Client.Job job() {
            return job;
        }
    }
}
