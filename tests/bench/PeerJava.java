// SPDX-License-Identifier: Apache-2.0
//
// PeerJava.java: Java's ForkJoinPool.
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

public class PeerJava {
    static final int FIB_N = 30;

    static final class Fib extends RecursiveTask<Long> {
        final int n;
        Fib(int n) { this.n = n; }
        protected Long compute() {
            if (n < 2) return (long) n;
            Fib a = new Fib(n - 1);
            a.fork();
            long b = new Fib(n - 2).compute();
            return a.join() + b;
        }
    }

    static final class Leaf extends RecursiveAction {
        protected void compute() { }
    }

    static long calls(int n) { return n < 2 ? 1 : 1 + calls(n - 1) + calls(n - 2); }

    static void say(String params, String metric, double value) {
        System.out.printf("%s %s %.4f%n", params, metric, value);
    }

    public static void main(String[] args) throws Exception {
        int workers = Integer.parseInt(args[1]);
        ForkJoinPool pool = new ForkJoinPool(workers);
        double best = 1e18;
        switch (args[0]) {
        case "fib":
            for (int i = 0; i < 12; i++) {
                long begin = System.nanoTime();
                pool.invoke(new Fib(FIB_N));
                best = Math.min(best, System.nanoTime() - begin);
            }
            say("n=30,workers=" + workers, "ns/call", best / calls(FIB_N));
            break;
        case "loop":
            for (int i = 0; i < 20; i++) {
                best = Math.min(best, pool.submit(() -> {
                    long begin = System.nanoTime();
                    Leaf[] all = new Leaf[1000];
                    for (int r = 0; r < 1000; r++) {
                        for (int k = 0; k < 1000; k++) (all[k] = new Leaf()).fork();
                        for (int k = 999; k >= 0; k--) all[k].join();
                    }
                    return (double) (System.nanoTime() - begin) / 1e6;
                }).get());
            }
            say("n=1000,workers=" + workers, "ns/task", best);
            break;
        case "inject":
            for (int i = 0; i < 8; i++) {
                LongAdder done = new LongAdder();
                Runnable r = done::increment;
                long begin = System.nanoTime();
                for (int k = 0; k < 1000000; k++) pool.execute(r);
                while (done.sum() < 1000000) Thread.sleep(0, 50000);
                best = Math.min(best, System.nanoTime() - begin);
            }
            say("n=1000000,workers=" + workers, "ns/task", best / 1e6);
            break;
        case "wake":
            for (int gap = 0; gap < 2; gap++) {
                int n = gap == 0 ? 20000 : 300;
                double[] all = new double[n];
                for (int i = 0; i < n; i++) {
                    if (gap == 1) Thread.sleep(1);
                    long begin = System.nanoTime();
                    pool.submit(() -> { }).get();
                    all[i] = System.nanoTime() - begin;
                }
                java.util.Arrays.sort(all);
                say("gap=" + (gap == 0 ? "0" : "1ms") + ",workers=" + workers, "ns/wake", all[n / 2]);
            }
            break;
        }
        pool.shutdown();
    }
}
