(* B1.v: FIFO, LRU and the optimum on a cycle over W > K items (claim B1).

   Hard hits, unit sizes, e_t = q_t, serve_then_update, stream, free fill, lambda = p/q >= 0. The policies are
   functions on a list cache that return what Model.run replays; the lower bound is for every schedule that
   Model.run accepts, so also for randomised and clairvoyant ones.                                           *)

From Coq Require Import List ZArith Lia Bool Arith Permutation.
Require Import Model.
Import ListNotations.
Open Scope Z_scope.

Ltac triple := match goal with |- Some (?a, ?b, _) = Some (?d, ?e, _) =>
  replace a with d by lia; replace b with e by lia; reflexivity end.

(* ---- the instance: adversaries' family "cycling" ------------------------------------------------------ *)

Definition requests (W t n : nat) : list nat := map (fun u => (u mod W)%nat) (seq t n).
Definition cycle (W T : nat) : list query := map hard (requests W 0 T).
Definition paper (N K : nat) : setting := Setting (repeat 1 N) (Z.of_nat K) true true true 1 1 false.

(* ---- the policies, softhit/policies/fifo.py and lru.py ------------------------------------------------- *)

(* The held items: oldest first for FIFO, least recent first for LRU. *)
Definition admit (K x : nat) (cache : list nat) : list nat * change :=
  if (length cache <? K)%nat then (cache ++ [x], Change [] [x])
  else match cache with
       | [] => ([], Change [] [])
       | v :: rest => (rest ++ [x], Change [v] [x])
       end.
Definition fifo (K x : nat) (cache : list nat) : list nat * change :=
  if mem x cache then (cache, Change [] []) else admit K x cache.
Definition lru (K x : nat) (cache : list nat) : list nat * change :=
  if mem x cache then (drop x cache ++ [x], Change [] []) else admit K x cache.

Fixpoint follow (policy : nat -> list nat -> list nat * change) (cache : list nat) (l : list nat)
  : list change :=
  match l with
  | [] => []
  | x :: rest => let (cache', c) := policy x cache in c :: follow policy cache' rest
  end.

(* Hold the first K items for ever. *)
Definition static (K T : nat) : list change :=
  map (fun t => if (t <? K)%nat then Change [] [t] else Change [] []) (seq 0 T).

(* Misses of the static schedule; K + ceil((T - K) / (K + 1)) for W = K + 1 and T >= K. *)
Definition opt (W K T : nat) : nat := (min T K + T / W * (W - K) + (T mod W - K))%nat.

(* ---- arithmetic of the cycle --------------------------------------------------------------------------- *)

Lemma mod_distinct : forall W t u, (u < t)%nat -> (t - u < W)%nat -> (t mod W <> u mod W)%nat.
Proof.
  intros W t u L D E. assert (W <> 0)%nat by lia.
  pose proof (Nat.div_mod t W ltac:(assumption)). pose proof (Nat.div_mod u W ltac:(assumption)).
  assert (t - u = W * (t / W - u / W))%nat by (rewrite Nat.mul_sub_distr_l; lia).
  destruct (t / W - u / W)%nat; nia.
Qed.

Lemma requests_NoDup : forall W n t, (n <= W)%nat -> NoDup (requests W t n).
Proof.
  intros W n. unfold requests. induction n as [|n IH]; intros t H; cbn [seq map]; constructor.
  - intros I. apply in_map_iff in I. destruct I as (u & E & I). apply in_seq in I.
    apply (mod_distinct W u t); lia.
  - apply IH. lia.
Qed.

Lemma requests_length : forall W t n, length (requests W t n) = n.
Proof. intros. unfold requests. now rewrite map_length, seq_length. Qed.

Lemma requests_app : forall W t a b, requests W t (a + b) = requests W t a ++ requests W (t + a) b.
Proof. intros. unfold requests. now rewrite seq_app, map_app. Qed.

Lemma paper_unit : forall N K, unit_sizes (paper N K).
Proof. intros N K. unfold unit_sizes. cbn [paper sizes]. apply Forall_forall. intros z. apply repeat_spec. Qed.

Lemma paper_items : forall N K, n_items (paper N K) = N.
Proof. intros. unfold n_items. cbn [paper sizes]. apply repeat_length. Qed.

Lemma paper_size : forall N K i, (i < N)%nat -> size (paper N K) i = 1.
Proof.
  intros N K i H. pose proof (paper_unit N K) as F. unfold unit_sizes in F. rewrite Forall_forall in F.
  unfold size. apply F, nth_In. fold (n_items (paper N K)). now rewrite paper_items.
Qed.

Lemma paper_valid : forall N K, valid_setting (paper N K).
Proof.
  intros N K. unfold valid_setting. cbn [paper top_k full capacity sizes].
  repeat split; try lia. apply Forall_forall. intros z H. apply repeat_spec in H. lia.
Qed.

Lemma hard_enters : forall N K x, may_enter (paper N K) (hard x) x = true.
Proof. intros. unfold may_enter. cbn. apply Nat.eqb_refl. Qed.

Lemma hard_enters_only : forall N K x y, may_enter (paper N K) (hard x) y = true -> x = y.
Proof. intros N K x y H. unfold may_enter in H. cbn in H. now apply Nat.eqb_eq. Qed.

Lemma miss_hard : forall N K x cache, miss (paper N K) (hard x) cache = if mem x cache then 0 else 1.
Proof.
  intros N K x cache. unfold miss, utility, retrieved. cbn [hard row filter item].
  destruct (mem x cache); reflexivity.
Qed.

(* ---- FIFO and LRU never hit ---------------------------------------------------------------------------- *)

(* The cache before request t: the last K requests. *)
Definition latest (W K t : nat) : list nat := requests W (t - K) (min t K).

Lemma latest_lacks : forall W K t, (K < W)%nat -> ~ In (t mod W)%nat (latest W K t).
Proof.
  intros W K t H I. unfold latest, requests in I. apply in_map_iff in I. destruct I as (u & E & I).
  apply in_seq in I. apply (mod_distinct W t u); lia.
Qed.

Lemma latest_range : forall W K t, (K < W)%nat -> Forall (fun i => (i < n_items (paper W K))%nat) (latest W K t).
Proof.
  intros W K t H. rewrite paper_items. apply Forall_forall. intros i I. unfold latest, requests in I.
  apply in_map_iff in I. destruct I as (u & <- & _). apply Nat.mod_upper_bound. lia.
Qed.

Lemma latest_step : forall W K t, (1 <= K < W)%nat -> exists c,
  admit K (t mod W) (latest W K t) = (latest W K (S t), c) /\
  enters c = [(t mod W)%nat] /\
  update (paper W K) (hard (t mod W)) c (latest W K t) = Some (latest W K (S t)).
Proof.
  intros W K t HK. pose proof (latest_lacks W K t ltac:(lia)) as L.
  pose proof (latest_range W K t ltac:(lia)) as R.
  assert (X : (t mod W < n_items (paper W K))%nat).
  { rewrite paper_items. apply Nat.mod_upper_bound. lia. }
  assert (Len : length (latest W K t) = min t K) by apply requests_length.
  unfold admit. rewrite Len. destruct (Nat.ltb_spec (min t K) K) as [H|H].
  - assert (E : latest W K (S t) = latest W K t ++ [(t mod W)%nat]).
    { unfold latest. replace (S t - K)%nat with 0%nat by lia. replace (t - K)%nat with 0%nat by lia.
      replace (min (S t) K) with (min t K + 1)%nat by lia. rewrite requests_app. cbn [requests seq map].
      replace (0 + min t K)%nat with t by lia. reflexivity. }
    rewrite E. eexists. split; [reflexivity|]. split; [reflexivity|].
    apply update_into_room; try assumption; [apply paper_unit | apply hard_enters |].
    rewrite Len. cbn [paper capacity]. lia.
  - assert (E : exists rest, latest W K t = ((t - K) mod W)%nat :: rest /\
                latest W K (S t) = rest ++ [(t mod W)%nat]).
    { exists (requests W (S (t - K)) (K - 1)). unfold latest.
      replace (min t K) with (1 + (K - 1))%nat by lia. split; [reflexivity|].
      replace (S t - K)%nat with (S (t - K)) by lia. replace (min (S t) K) with (K - 1 + 1)%nat by lia.
      rewrite requests_app. cbn [requests seq map]. do 3 f_equal. lia. }
    destruct E as (rest & E1 & E2).
    assert (U : update (paper W K) (hard (t mod W))
              (Change [((t - K) mod W)%nat] [(t mod W)%nat]) (latest W K t)
              = Some (drop ((t - K) mod W) (latest W K t) ++ [(t mod W)%nat])).
    { apply update_replace; try assumption; [apply paper_unit | apply hard_enters | |].
      - rewrite E1. now left.
      - rewrite Len. cbn [paper capacity]. lia. }
    rewrite E1 in U |- *. rewrite E2. eexists. split; [reflexivity|]. split; [reflexivity|]. rewrite U.
    cbn [drop]. rewrite Nat.eqb_refl. reflexivity.
Qed.

(* Any policy that admits a missing item as FIFO and LRU do. *)
Lemma never_hits : forall policy W K, (1 <= K < W)%nat ->
  (forall x cache, mem x cache = false -> policy x cache = admit K x cache) ->
  forall n t, run (paper W K) (latest W K t) (map hard (requests W t n))
                (follow policy (latest W K t) (requests W t n))
              = Some (Z.of_nat n, Z.of_nat n, latest W K (t + n)).
Proof.
  intros policy W K HK A. induction n as [|n IH]; intros t.
  - rewrite Nat.add_0_r. reflexivity.
  - destruct (latest_step W K t HK) as (c & P & E & U). pose proof (latest_lacks W K t ltac:(lia)) as L.
    apply mem_false in L. cbn [requests seq map follow]. rewrite (A _ _ L), P. cbn [run]. rewrite U.
    specialize (IH (S t)). unfold requests in IH. rewrite IH. cbn [paper serves_first].
    rewrite (miss_hard W K (t mod W)), L, E. cbn [map Zsum].
    replace (size (paper W K) (t mod W)) with 1.
    + replace (t + S n)%nat with (S t + n)%nat by lia. triple.
    + symmetry. apply paper_size, Nat.mod_upper_bound. lia.
Qed.

(* T misses and T insertions: no request of a cycle over W > K items is ever a hit. *)
Theorem fifo_cycle : forall W K T, (1 <= K < W)%nat ->
  run (paper W K) [] (cycle W T) (follow (fifo K) [] (requests W 0 T))
  = Some (Z.of_nat T, Z.of_nat T, latest W K T).
Proof.
  intros W K T HK. refine (never_hits (fifo K) W K HK _ T 0). intros x cache M. unfold fifo. now rewrite M.
Qed.

Theorem lru_cycle : forall W K T, (1 <= K < W)%nat ->
  run (paper W K) [] (cycle W T) (follow (lru K) [] (requests W 0 T))
  = Some (Z.of_nat T, Z.of_nat T, latest W K T).
Proof.
  intros W K T HK. refine (never_hits (lru K) W K HK _ T 0). intros x cache M. unfold lru. now rewrite M.
Qed.

Lemma price_cycle : forall N K p q m T,
  price (paper N K) p q m (Z.of_nat T) = q * m + p * Z.of_nat (T - K).
Proof. intros. unfold price, paid. cbn [paper free_fill full capacity].
  replace (Z.max 0 (Z.of_nat T - Z.of_nat K)) with (Z.of_nat (T - K)) by lia. ring.
Qed.

(* Cost = T + lambda max(0, T - K), in units of 1/q (subtraction of nat stops at 0). *)
Theorem fifo_cost : forall W K T p q, (1 <= K < W)%nat ->
  cost (paper W K) p q (cycle W T) (follow (fifo K) [] (requests W 0 T))
  = Some (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof. intros. unfold cost. rewrite fifo_cycle by assumption. now rewrite price_cycle. Qed.

Theorem lru_cost : forall W K T p q, (1 <= K < W)%nat ->
  cost (paper W K) p q (cycle W T) (follow (lru K) [] (requests W 0 T))
  = Some (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof. intros. unfold cost. rewrite lru_cycle by assumption. now rewrite price_cycle. Qed.

(* ---- no schedule does better than the static one --------------------------------------------------------- *)

Definition hits_at_start (cache l : list nat) : nat := length (filter (fun x => mem x cache) l).

Lemma hits_mono : forall l c1 c2, (forall x, In x l -> In x c1 -> In x c2) ->
  (hits_at_start c1 l <= hits_at_start c2 l)%nat.
Proof.
  unfold hits_at_start. induction l as [|x l IH]; intros c1 c2 H; cbn [filter]; [lia|].
  assert (I : (length (filter (fun y => mem y c1) l) <= length (filter (fun y => mem y c2) l))%nat).
  { apply IH. intros y Y. apply H. now right. }
  destruct (mem x c1) eqn:E.
  - apply mem_In in E. apply (H x (or_introl eq_refl)), mem_In in E. rewrite E. cbn [length]. lia.
  - destruct (mem x c2); cbn [length]; lia.
Qed.

(* Different requests: one that is not held at the start can enter only after its own miss. *)
Lemma distinct_misses : forall N K l cache sch m z last, NoDup l -> sound (paper N K) cache ->
  run (paper N K) cache (map hard l) sch = Some (m, z, last) ->
  Z.of_nat (length l) - Z.of_nat (hits_at_start cache l) <= m.
Proof.
  intros N K l. induction l as [|x l IH]; intros cache sch m z last D S E.
  - destruct sch; cbn [map run] in E; [|easy]. injection E as <- <- <-. reflexivity.
  - destruct sch as [|h sch]; cbn [map run] in E; [easy|].
    destruct (update (paper N K) (hard x) h cache) as [held|] eqn:U; [|easy].
    destruct (run (paper N K) held (map hard l) sch) as [[[m' z'] c']|] eqn:R; [|easy].
    cbn [paper serves_first] in E. fold (paper N K) in E. injection E as <- <- <-.
    inversion D as [|? ? X D']; subst.
    destruct (update_sound _ _ _ _ _ (paper_valid N K) S U) as [S' I].
    specialize (IH held sch m' z' c' D' S' R). rewrite miss_hard.
    assert (M : (hits_at_start held l <= hits_at_start cache l)%nat).
    { apply hits_mono. intros y Y J. destruct (I y J) as [G|G]; [assumption|].
      apply hard_enters_only in G. subst. contradiction. }
    unfold hits_at_start in *. cbn [filter length]. destruct (mem x cache); cbn [length]; lia.
Qed.

Lemma hits_capacity : forall N K l cache, NoDup l -> sound (paper N K) cache ->
  (hits_at_start cache l <= K)%nat.
Proof.
  intros N K l cache D (_ & F & U). rewrite (used_unit _ _ (paper_unit N K) F) in U. cbn [paper capacity] in U.
  assert (H : (hits_at_start cache l <= length cache)%nat).
  { apply NoDup_incl_length; [now apply NoDup_filter|]. intros x I. apply filter_In in I. now apply mem_In. }
  lia.
Qed.

(* n <= W consecutive requests of a cycle, from any cache: at least n - K misses; from the empty one n. *)
Theorem window_misses : forall N W K t n cache sch m z last, (n <= W)%nat -> sound (paper N K) cache ->
  run (paper N K) cache (map hard (requests W t n)) sch = Some (m, z, last) ->
  Z.of_nat (n - K) <= m /\ (cache = [] -> Z.of_nat n <= m).
Proof.
  intros N W K t n cache sch m z last H S E. pose proof (requests_NoDup W n t H) as D.
  pose proof (distinct_misses N K _ _ _ _ _ _ D S E) as M. rewrite requests_length in M.
  pose proof (hits_capacity N K _ cache D S) as C.
  split.
  - destruct (Nat.le_gt_cases n K) as [L|L]; [|lia]. replace (n - K)%nat with 0%nat by lia.
    pose proof (hits_capacity N K _ cache D S).
    assert (hits_at_start cache (requests W t n) <= n)%nat.
    { rewrite <- (requests_length W t n) at 2. unfold hits_at_start.
      generalize (requests W t n). induction l as [|x l I]; cbn [filter length]; [lia|].
      destruct (mem x cache); cbn [length]; lia. }
    lia.
  - intros ->. enough (hits_at_start [] (requests W t n) = 0%nat) by lia.
    unfold hits_at_start. generalize (requests W t n). induction l as [|x l I]; [reflexivity | exact I].
Qed.

Lemma many_windows : forall N W K a r t cache sch m z last, (r <= W)%nat -> sound (paper N K) cache ->
  run (paper N K) cache (map hard (requests W t (a * W + r))) sch = Some (m, z, last) ->
  Z.of_nat (a * (W - K) + (r - K)) <= m.
Proof.
  intros N W K a r. induction a as [|a IH]; intros t cache sch m z last H So E.
  - now apply (window_misses N W K t r cache sch m z last).
  - replace (S a * W + r)%nat with (W + (a * W + r))%nat in E by lia.
    rewrite requests_app, map_app in E.
    destruct (run_split _ _ _ _ _ _ _ _ E) as (s1 & s2 & m1 & z1 & c1 & m2 & z2 & -> & -> & -> & R1 & R2).
    pose proof (run_sound _ _ _ _ _ _ _ (paper_valid N K) So R1) as S1.
    destruct (window_misses N W K t W cache s1 m1 z1 c1 (le_n W) So R1) as [A _].
    pose proof (IH _ _ _ _ _ _ H S1 R2). lia.
Qed.

(* Every schedule, of any number N of items, K < W: at least opt misses in T steps. *)
Theorem cycle_lower_bound : forall N W K T sch m z last, (K < W)%nat ->
  run (paper N K) [] (cycle W T) sch = Some (m, z, last) -> Z.of_nat (opt W K T) <= m.
Proof.
  intros N W K T sch m z last H E. unfold opt.
  pose proof (Nat.div_mod T W ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T W ltac:(lia)) as B.
  set (a := (T / W)%nat) in *. set (r := (T mod W)%nat) in *. clearbody a r.
  pose proof (sound_nil _ (paper_valid N K)) as So. unfold cycle in E.
  destruct a as [|a].
  - destruct (window_misses N W K 0 T [] sch m z last ltac:(lia) So E) as [_ A]. specialize (A eq_refl). lia.
  - replace T with (W + (a * W + r))%nat in E by lia. rewrite requests_app, map_app in E.
    destruct (run_split _ _ _ _ _ _ _ _ E) as (s1 & s2 & m1 & z1 & c1 & m2 & z2 & -> & -> & -> & R1 & R2).
    destruct (window_misses N W K 0 W [] s1 m1 z1 c1 (le_n W) So R1) as [_ A]. specialize (A eq_refl).
    pose proof (run_sound _ _ _ _ _ _ _ (paper_valid N K) So R1) as S1.
    pose proof (many_windows N W K a r _ _ _ _ _ _ ltac:(lia) S1 R2). nia.
Qed.

Lemma opt_step : forall W K T, (K < W)%nat ->
  opt W K (S T) = (opt W K T + if (T <? K)%nat then 1 else if (T mod W <? K)%nat then 0 else 1)%nat.
Proof.
  intros W K T H. unfold opt.
  pose proof (Nat.div_mod T W ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T W ltac:(lia)) as B.
  set (a := (T / W)%nat) in *. set (r := (T mod W)%nat) in *. clearbody a r.
  destruct (Nat.eq_dec (S r) W) as [E|E].
  - rewrite <- (Nat.div_unique (S T) W (S a) 0) by nia. rewrite <- (Nat.mod_unique (S T) W (S a) 0) by nia.
    destruct (Nat.ltb_spec T K); [nia|]. destruct (Nat.ltb_spec r K); nia.
  - rewrite <- (Nat.div_unique (S T) W a (S r)) by nia. rewrite <- (Nat.mod_unique (S T) W a (S r)) by nia.
    destruct (Nat.ltb_spec T K); [nia|]. destruct (Nat.ltb_spec r K); nia.
Qed.

(* The static schedule attains it, with min T K insertions, none of them paid. *)
Theorem static_cycle : forall W K T, (K < W)%nat ->
  run (paper W K) [] (cycle W T) (static K T)
  = Some (Z.of_nat (opt W K T), Z.of_nat (min T K), seq 0 (min T K)).
Proof.
  intros W K T H. induction T as [|T IH].
  - unfold opt. rewrite Nat.div_0_l, Nat.mod_0_l by lia. reflexivity.
  - unfold cycle, static. rewrite <- (Nat.add_1_r T), requests_app, seq_app, !map_app.
    rewrite (run_app _ _ _ _ _ _ _ _ _ IH). rewrite Nat.add_1_r, opt_step by assumption.
    cbn [requests seq map run]. rewrite !Nat.add_0_l. cbn [paper serves_first]. fold (paper W K).
    rewrite miss_hard.
    destruct (Nat.ltb_spec T K) as [L|L].
    + rewrite (Nat.mod_small T W) by lia.
      rewrite update_into_room; try apply paper_unit.
      * rewrite (proj2 (mem_false _ _)).
        -- cbn [enters map Zsum].
           rewrite paper_size by lia. replace (min (S T) K) with (min T K + 1)%nat by lia.
           rewrite seq_app. cbn [seq]. replace (min T K) with T by lia. triple.
        -- intros I. apply in_seq in I. lia.
      * apply Forall_forall. intros i I. apply in_seq in I. rewrite paper_items. lia.
      * rewrite paper_items. lia.
      * apply hard_enters.
      * intros I. apply in_seq in I. lia.
      * rewrite seq_length. cbn [paper capacity]. lia.
    + unfold update. cbn [leaves leave enters enter map Zsum].
      replace (min (S T) K) with (min T K) by lia.
      destruct (Nat.ltb_spec (T mod W) K) as [G|G].
      * rewrite (proj2 (mem_In _ _)) by (apply in_seq; lia). triple.
      * rewrite (proj2 (mem_false _ _)) by (intros I; apply in_seq in I; lia). triple.
Qed.

(* OPT on every cycle W > K, for every lambda = p/q >= 0: the static schedule costs q opt, no other one less. *)
Theorem cycle_optimum : forall W K T p q, (K < W)%nat -> 0 <= p -> 0 <= q ->
  cost (paper W K) p q (cycle W T) (static K T) = Some (q * Z.of_nat (opt W K T)) /\
  forall sch c, cost (paper W K) p q (cycle W T) sch = Some c -> q * Z.of_nat (opt W K T) <= c.
Proof.
  intros W K T p q H Hp Hq. split.
  - unfold cost. rewrite static_cycle by assumption. unfold price, paid. cbn [paper free_fill full capacity].
    rewrite Z.max_l by lia. f_equal. lia.
  - intros sch c E. unfold cost in E.
    destruct (run (paper W K) [] (cycle W T) sch) as [[[m z] last]|] eqn:R; [|easy]. injection E as <-.
    pose proof (cycle_lower_bound W W K T sch m z last H R). unfold price, paid.
    cbn [paper free_fill full capacity]. pose proof (Z.le_max_l 0 (z - Z.of_nat K)). nia.
Qed.

(* ceil(n / d) = (n + d - 1) / d. *)
Theorem opt_next : forall K T, (K <= T)%nat -> opt (K + 1) K T = (K + (T - K + K) / (K + 1))%nat.
Proof.
  intros K T H. unfold opt. pose proof (Nat.mod_upper_bound T (K + 1) ltac:(lia)).
  replace (T - K + K)%nat with T by lia. replace (K + 1 - K)%nat with 1%nat by lia. lia.
Qed.

(* The form counted from the end of the fill: T = K + m W + r, K + m (W - K) + min(r, W - K). *)
Theorem opt_rounds : forall W K T, (K < W)%nat -> (K <= T)%nat ->
  opt W K T = (K + (T - K) / W * (W - K) + min ((T - K) mod W) (W - K))%nat.
Proof.
  intros W K T H HT. unfold opt.
  pose proof (Nat.div_mod (T - K) W ltac:(lia)) as D.
  pose proof (Nat.mod_upper_bound (T - K) W ltac:(lia)) as B.
  set (m := ((T - K) / W)%nat) in *. set (r := ((T - K) mod W)%nat) in *. clearbody m r.
  destruct (Nat.lt_ge_cases (r + K) W) as [L|L].
  - rewrite <- (Nat.div_unique T W m (r + K)) by nia. rewrite <- (Nat.mod_unique T W m (r + K)) by nia. lia.
  - rewrite <- (Nat.div_unique T W (m + 1) (r + K - W)) by nia.
    rewrite <- (Nat.mod_unique T W (m + 1) (r + K - W)) by nia. nia.
Qed.

(* ---- the ratio ------------------------------------------------------------------------------------------ *)

Lemma opt_linear : forall W K T, (K < W)%nat ->
  (T * (W - K) <= W * opt W K T <= T * (W - K) + W * K)%nat.
Proof.
  intros W K T H. unfold opt.
  pose proof (Nat.div_mod T W ltac:(lia)) as D. pose proof (Nat.mod_upper_bound T W ltac:(lia)) as B.
  set (a := (T / W)%nat) in *. set (r := (T mod W)%nat) in *. clearbody a r.
  assert (E : (exists d, W = K + d)%nat) by (exists (W - K)%nat; lia). destruct E as [d ->].
  replace (K + d - K)%nat with d by lia. subst T.
  destruct a as [|a].
  - rewrite Nat.mul_0_r, Nat.add_0_l, Nat.mul_0_l, Nat.add_0_r.
    destruct (Nat.le_gt_cases r K) as [L|L].
    + rewrite Nat.min_l by lia. replace (r - K)%nat with 0%nat by lia. nia.
    + rewrite Nat.min_r by lia. assert (E : (exists e, r = K + e)%nat) by (exists (r - K)%nat; lia).
      destruct E as [e ->]. replace (K + e - K)%nat with e by lia. nia.
  - rewrite Nat.min_r by nia. destruct (Nat.le_gt_cases r K) as [L|L].
    + replace (r - K)%nat with 0%nat by lia. nia.
    + assert (E : (exists e, r = K + e)%nat) by (exists (r - K)%nat; lia).
      destruct E as [e ->]. replace (K + e - K)%nat with e by lia. nia.
Qed.

(* alg = q FIFO = q LRU. With f = (q + p) W / (W - K), so that f / q = (1 + lambda) W / (W - K):
   f OPT - b <= alg <= f OPT, b free of T; all multiplied by W - K.                                          *)
Theorem ratio_between : forall W K T p q, (1 <= K < W)%nat -> (K <= T)%nat -> 0 <= p -> 0 < q ->
  let alg := q * Z.of_nat T + p * Z.of_nat (T - K) in
  let best := Z.of_nat (opt W K T) in
  let w := Z.of_nat W in let k := Z.of_nat K in
  (q + p) * w * best - ((q + p) * w + p * (w - k)) * k <= (w - k) * alg <= (q + p) * w * best.
Proof.
  intros W K T p q HK HT Hp Hq alg best w k. unfold alg. rewrite Nat2Z.inj_sub by assumption.
  destruct (opt_linear W K T ltac:(lia)) as [A B].
  assert (A' : Z.of_nat T * (w - k) <= w * best) by (unfold w, k, best; nia).
  assert (B' : w * best <= Z.of_nat T * (w - k) + w * k) by (unfold w, k, best; nia).
  assert (0 <= k) by (unfold k; lia). assert (0 < w - k) by (unfold w, k; lia). fold k.
  clearbody best w k. clear A B. generalize dependent (Z.of_nat T). intros t A B.
  assert (0 <= p * k * (w - k)) by (apply Z.mul_nonneg_nonneg; nia). split; nia.
Qed.

(* No smaller factor u/v, whatever the additive constant: for some T FIFO and LRU cost more. *)
Theorem no_smaller_factor : forall W K p q u v b, (1 <= K < W)%nat -> 0 <= p -> 0 < q -> 0 < v ->
  u * q * Z.of_nat (W - K) < (q + p) * Z.of_nat W * v -> exists T, (K <= T)%nat /\
  u * (q * Z.of_nat (opt W K T)) + b < v * (q * Z.of_nat T + p * Z.of_nat (T - K)).
Proof.
  intros W K p q u v b HK Hp Hq Hv H.
  set (f := (q + p) * Z.of_nat W) in *. set (d := Z.of_nat (W - K)) in *.
  set (c := (f + p * d) * Z.of_nat K).
  (* After n rounds OPT is at least n. *)
  set (n := Z.to_nat (v * c + d * Z.abs b + 1)).
  exists (W * (n + 1))%nat. split; [nia|].
  pose proof (ratio_between W K (W * (n + 1)) p q HK ltac:(nia) Hp Hq) as [L _].
  assert (Ed : Z.of_nat W - Z.of_nat K = d) by (unfold d; lia). rewrite Ed in L. fold f in L. fold c in L.
  assert (O : (n <= opt W K (W * (n + 1)))%nat).
  { unfold opt. rewrite (Nat.mul_comm W), Nat.div_mul, Nat.mod_mul by lia.
    pose proof (Nat.mul_le_mono_l 1 (W - K) (n + 1) ltac:(lia)). lia. }
  set (o := opt W K (W * (n + 1))) in *. clearbody o.
  set (alg := q * Z.of_nat (W * (n + 1)) + p * Z.of_nat (W * (n + 1) - K)) in *. clearbody alg.
  assert (Hd : 1 <= d) by (unfold d; lia). assert (Hf : 0 <= f) by (unfold f; nia).
  assert (Hc : 0 <= c).
  { unfold c. apply Z.mul_nonneg_nonneg; [|lia]. apply Z.add_nonneg_nonneg; [lia | nia]. }
  assert (N : Z.of_nat n = v * c + d * Z.abs b + 1).
  { unfold n. rewrite Z2Nat.id; [reflexivity|]. nia. }
  clearbody n f d c. clear Ed HK.
  assert (v * (f * Z.of_nat o - c) <= v * (d * alg)) by nia.
  assert (Z.of_nat o <= (f * v - u * q * d) * Z.of_nat o) by nia.
  assert (G : d * (u * (q * Z.of_nat o) + b) < d * (v * alg)) by nia. nia.
Qed.

Print Assumptions fifo_cycle.
Print Assumptions lru_cycle.
Print Assumptions fifo_cost.
Print Assumptions lru_cost.
Print Assumptions window_misses.
Print Assumptions cycle_lower_bound.
Print Assumptions static_cycle.
Print Assumptions cycle_optimum.
Print Assumptions opt_next.
Print Assumptions opt_rounds.
Print Assumptions ratio_between.
Print Assumptions no_smaller_factor.
