# Run in the machine: load.sh PORT KEY FOLDER — seals one document after the other until FOLDER/stop is there. A job that is
# answered goes to FOLDER/jobs, a request that got no answer at all to FOLDER/lost; a 503 is repeated, as it says.
port=$1 key=$2 folder=$3
mkdir -p "$folder"
n=0
while [ ! -e "$folder/stop" ]; do
  n=$((n + 1))
  printf '%%PDF-1.7\ndocument %s\n%%%%EOF\n' "$n" >"$folder/document.pdf"
  status=$(curl -s -o "$folder/answer" -w '%{http_code}' --max-time 60 -H "Authorization: Bearer $key" \
    -F visibility=private -F mode=blocking -F "file=@$folder/document.pdf" "http://127.0.0.1:$port/v1/jobs/seal")
  case $status in
    202)
      job=$(sed -E 's/.*"id":"([^"]*)".*/\1/' "$folder/answer")
      cp "$folder/document.pdf" "$folder/$job.pdf"
      echo "$job" >>"$folder/jobs"
      sleep 0.05
      ;;
    503) sleep 0.1 ;;
    *)
      echo "$n $status" >>"$folder/lost"
      sleep 0.1
      ;;
  esac
done
