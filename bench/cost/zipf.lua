-- wrk's clients: each asks for files of one size, some often, most hardly ever (Zipf), the next when it has its answer, or after a pause of
-- random length. `wrk … URL -- SIZE MEAN_PAUSE_MS SEED`; prints what it has seen as JSON.
local keys, exponent = 200, 0.99
local asked, at = {}, 0

function init(args)
   local size, pause = args[1], tonumber(args[2])
   math.randomseed(tonumber(args[3]))
   local requests, sums, sum = {}, {}, 0
   for key = 1, keys do
      requests[key] = wrk.format("GET", "/" .. size .. "/" .. key)
      sum = sum + 1 / key ^ exponent
      sums[key] = sum
   end
   for i = 1, 5000 do
      local point, low, high = math.random() * sum, 1, keys
      while low < high do
         local middle = math.floor((low + high) / 2)
         if sums[middle] < point then low = middle + 1 else high = middle end
      end
      asked[i] = requests[low]
   end
   -- wrk waits whole milliseconds.
   if pause > 0 then
      delay = function() return math.floor(-pause * math.log(1 - math.random()) + 0.5) end
   end
end

function request()
   at = at % #asked + 1
   return asked[at]
end

function done(summary, latency, _)
   local errors = summary.errors
   io.write(string.format('\nJSON {"requests": %d, "us": %d, "bytes": %d, "errors": %d, "mean": %f, "p50": %f, "p99": %f}\n', summary.requests, summary.duration,
      summary.bytes, errors.connect + errors.read + errors.write + errors.status + errors.timeout, latency.mean, latency:percentile(50), latency:percentile(99)))
end
