package main

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// metrics is the body of /metrics. Whatever cgroup it runs in, CPU and memory are the node's: /proc knows no cgroup.
type metrics struct {
	CPUCount    float64 `json:"cpu_count"`
	CPUUsedPct  float64 `json:"cpu_used_pct"`
	MemTotalMiB float64 `json:"mem_total_mib"`
	MemUsedMiB  float64 `json:"mem_used_mib"`
	Timestamp   int64   `json:"timestamp"`
}

// readMetrics blocks for the second over which CPU use is measured; the timestamp (Unix ms) is that of the start.
// Where /proc cannot be read it gives zeros, as the real one does.
func readMetrics() metrics {
	timestamp := time.Now().UnixMilli()
	before := readCPUTimes()
	time.Sleep(time.Second)
	usedPct := usedPercent(before, readCPUTimes())
	memory := readMemoryKiB()
	cached := memory["Cached"] + memory["SReclaimable"]
	return metrics{
		// The Go runtime's own rule since 1.25, the one whose result the real execd reports.
		CPUCount:    float64(runtime.GOMAXPROCS(0)),
		CPUUsedPct:  usedPct,
		MemTotalMiB: memory["MemTotal"] / 1024,
		MemUsedMiB:  (memory["MemTotal"] - memory["MemFree"] - memory["Buffers"] - cached) / 1024,
		Timestamp:   timestamp,
	}
}

// cpuTimes counts clock ticks of all CPUs together.
type cpuTimes struct {
	busy, all float64
}

// readCPUTimes sums the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
// Guest time is part of user; waiting for disks counts as busy, as in the real execd.
func readCPUTimes() cpuTimes {
	const idleField, lastField = 4, 8
	var times cpuTimes
	for line := range strings.Lines(readProc("stat")) {
		fields := strings.Fields(line)
		if len(fields) <= lastField || fields[0] != "cpu" {
			continue
		}
		for index, field := range fields[1 : lastField+1] {
			ticks, _ := strconv.ParseFloat(field, 64)
			times.all += ticks
			if index+1 != idleField {
				times.busy += ticks
			}
		}
	}
	return times
}

func usedPercent(before, after cpuTimes) float64 {
	if after.busy <= before.busy {
		return 0
	}
	return min(100, (after.busy-before.busy)/(after.all-before.all)*100)
}

func readMemoryKiB() map[string]float64 {
	memory := map[string]float64{}
	for line := range strings.Lines(readProc("meminfo")) {
		name, rest, found := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if found && len(fields) > 0 {
			memory[name], _ = strconv.ParseFloat(fields[0], 64)
		}
	}
	return memory
}

// readProc honours HOST_PROC, the variable by which the creator of a sandbox can make the real execd report any number.
func readProc(name string) string {
	content, _ := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("HOST_PROC"), "/proc"), name))
	return string(content)
}
